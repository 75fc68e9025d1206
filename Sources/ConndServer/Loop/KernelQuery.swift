import Connectivity
import LinuxSupport
import Synchronization

/// A client's query, answered on the monitor thread.
struct KernelQuery: Sendable {
  enum Kind: Sendable {
    /// Answered with `unknown` if the kernel is unavailable.
    case path(Destination, Reply<KernelPath>)
    case otherWay(Destination, Reply<KernelAnswer<OtherWay>>)
    /// A client's report about an attempt to connect (Q2).
    case attempt(Destination, AttemptOutcome, Reply<KernelAnswer<LinkQuality>>)
    /// Compares the path with the links of these indexes.
    case explain(Destination?, links: [UInt32], Reply<KernelAnswer<Explanation>>)
    /// Judges connections as if they were registered.
    case judge([FlowTable.Registration], Reply<KernelAnswer<[ConnectionReport]>>)
    case listLinks(Reply<KernelAnswer<[LinkReport]>>)
    /// The rest of a listing. Not a client's query.
    case restOfLinks
    /// Begins to watch the path to a destination.
    case watch(Destination, Reply<PathWatch>)
    case costs(CostRequest, Reply<Result<CostRequest.Answer, CostRequest.Refusal>>)
  }

  typealias ID = UInt64

  private static let lastID = Atomic<ID>(0)

  static func nextID() -> ID { self.lastID.wrappingAdd(1, ordering: .relaxed).newValue }

  var id: ID
  var account: Account
  var kind: Kind

  /// Ends the query without an answer because the client has disconnected or connd is stopping.
  func drop() {
    switch self.kind {
    case .path(_, let reply): reply.resume(returning: nil)
    case .otherWay(_, let reply): reply.resume(returning: nil)
    case .attempt(_, _, let reply): reply.resume(returning: nil)
    case .explain(_, _, let reply): reply.resume(returning: nil)
    case .judge(_, let reply): reply.resume(returning: nil)
    case .listLinks(let reply): reply.resume(returning: nil)
    case .restOfLinks: break
    case .watch(_, let reply): reply.resume(returning: nil)
    case .costs(_, let reply): reply.resume(returning: nil)
    }
  }
}
