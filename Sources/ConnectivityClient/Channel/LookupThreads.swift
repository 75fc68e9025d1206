private import DequeModule
internal import GRPCNIOTransportHTTP2Posix
private import LinuxSupport
private import Synchronization

/// Looks up names with getaddrinfo(3), which blocks its thread and cannot be interrupted. Each
/// lookup has its own thread, because it may wait seconds for a server that other lookups do not
/// need.
///
/// The C library reads resolv.conf(5) at the start of each lookup (glibc since 2.26). A lookup that
/// starts after a change therefore uses the new servers.
final class LookupThreads: Sendable {
  typealias Addresses = Resolution.Addresses
  typealias Answer = Result<Addresses, any Error>
  typealias Blocking = @Sendable (_ host: String, _ port: Int) throws -> Addresses

  /// The threads of this process. Lookups beyond the limit wait for one that ends.
  static let shared = LookupThreads(limit: 64, getAddresses)

  /// A lookup that its caller may cancel.
  private final class Request: Sendable {
    let host: String
    let port: Int
    private let onAnswer: Mutex<(@Sendable (Answer) -> Void)?>

    init(_ host: String, _ port: Int, _ onAnswer: @escaping @Sendable (Answer) -> Void) {
      (self.host, self.port) = (host, port)
      self.onAnswer = Mutex(onAnswer)
    }

    var isWanted: Bool { self.onAnswer.withLock { $0 != nil } }

    func cancel() { _ = self.taken() }

    func answer(_ answer: Answer) { self.taken()?(answer) }

    private func taken() -> (@Sendable (Answer) -> Void)? {
      self.onAnswer.withLock { onAnswer in
        defer { onAnswer = nil }
        return onAnswer
      }
    }
  }

  private struct State {
    var running = 0
    var queue: Deque<Request> = []
  }

  private let limit: Int
  private let lookUp: Blocking
  private let state = Mutex(State())

  init(limit: Int, _ lookUp: @escaping Blocking) {
    self.limit = limit
    self.lookUp = lookUp
  }

  /// Starts a lookup.
  ///
  /// - Parameter onAnswer: Called once on another thread, unless the lookup was cancelled.
  /// - Returns: A function that cancels the lookup. A cancelled lookup that has started keeps its
  ///   thread until it ends.
  func start(
    _ host: String, port: Int, onAnswer: @escaping @Sendable (Answer) -> Void
  ) -> @Sendable () -> Void {
    let request = Request(host, port, onAnswer)
    let mayStart = self.state.withLock { state in
      guard state.running < self.limit else {
        state.queue.append(request)
        return false
      }
      state.running += 1
      return true
    }
    if mayStart, !Thread.start(named: "connd-lookup", { self.serve(request) }) {
      self.state.withLock { $0.running -= 1 }
      request.answer(
        .failure(LookupError(description: "cannot resolve '\(host)': no thread is left")))
    }
    return { request.cancel() }
  }

  private func serve(_ first: Request) {
    var next: Request? = first
    while let request = next {
      if request.isWanted {
        request.answer(Result { try self.lookUp(request.host, request.port) })
      }
      next = self.state.withLock { state in
        let next = state.queue.popFirst()
        if next == nil { state.running -= 1 }
        return next
      }
    }
  }
}

/// The error of the system's resolver.
struct LookupError: Error, CustomStringConvertible {
  let description: String
}

/// Returns the addresses of a name, in the order of RFC 6724.
private func getAddresses(of host: String, port: Int) throws -> LookupThreads.Addresses {
  do throws(HostLookupError) {
    // The hosts include the zones of link-local addresses.
    return try addresses(ofHost: host).map { name in
      switch name.address.family {
      case .ipv4: .ipv4(host: name.host, port: port)
      case .ipv6: .ipv6(host: name.host, port: port)
      }
    }
  } catch {
    throw LookupError(description: "cannot resolve '\(host)': \(error)")
  }
}
