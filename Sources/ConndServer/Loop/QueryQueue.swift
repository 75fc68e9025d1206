import Connectivity
import LinuxSupport
import UnixTransport

/// Clients' queries that wait for their user's turn.
struct QueryQueue {
  private var queue = FairShare<Account, KernelQuery>()
  /// The listing of links in progress.
  var listing: PendingListing?

  /// The maximum processor time per turn for queries, so that they delay kernel messages only
  /// briefly.
  static let maxTime = Duration.microseconds(250)

  var isBusy: Bool { !self.queue.isEmpty }

  mutating func append(_ query: KernelQuery) { self.queue.append(query, of: query.account) }

  mutating func popFirst() -> (item: KernelQuery, user: Account)? { self.queue.popFirst() }

  /// Charges a user for the time that an answer took.
  mutating func charge(_ time: Duration, to user: Account) { self.queue.charge(time, to: user) }

  /// Removes and returns all queries for a listing of links.
  mutating func takeListings() -> [KernelQuery] {
    self.queue.remove { if case .listLinks = $0.kind { true } else { false } }
  }

  /// Drops a query of a disconnected client.
  mutating func drop(_ query: KernelQuery.ID, of account: Account) {
    for query in self.queue.remove(of: account, where: { $0.id == query }) { query.drop() }
    if let place = self.listing?.later.firstIndex(where: { $0.id == query }) {
      self.listing?.later.remove(at: place).drop()
    }
  }

  /// Drops all queries because connd is stopping.
  mutating func finish() {
    for query in self.queue.remove(where: { _ in true }) { query.drop() }
    guard let pending = self.listing.take() else { return }
    for reply in pending.replies { reply.resume(returning: nil) }
    for query in pending.later { query.drop() }
  }
}
