private import DequeModule
internal import GRPCNIOTransportHTTP2Posix
private import Synchronization

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Looks names up with getaddrinfo(3), which blocks its thread and cannot be interrupted. Each
/// lookup has a thread of its own, because one may wait seconds for a server that another does not
/// need.
///
/// The C library reads resolv.conf(5) at the start of each lookup (glibc since 2.26), so a lookup
/// that starts after a change uses the new servers.
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
  /// - Returns: The cancellation. A cancelled lookup that has started keeps its thread until it
  ///   ends.
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
    if mayStart, !startThread({ self.serve(request) }) {
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
  var hints = addrinfo()
  #if canImport(Glibc)
    hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
  #else
    hints.ai_socktype = SOCK_STREAM
  #endif
  hints.ai_protocol = CInt(IPPROTO_TCP)
  var list: UnsafeMutablePointer<addrinfo>?
  let code = getaddrinfo(host, nil, &hints, &list)
  guard code == 0 else {
    let why = gai_strerror(code).map { String(cString: $0) } ?? "error \(code)"
    throw LookupError(description: "cannot resolve '\(host)': \(why)")
  }
  defer { freeaddrinfo(list) }
  return sequence(first: list, next: { $0?.pointee.ai_next }).compactMap { entry in
    guard let entry else { return nil }
    // With the zone of a link-local address.
    var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    guard
      getnameinfo(
        entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0,
        NI_NUMERICHOST) == 0
    else { return nil }
    let address = String(
      decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    switch entry.pointee.ai_family {
    case AF_INET: return .ipv4(host: address, port: port)
    case AF_INET6: return .ipv6(host: address, port: port)
    default: return nil
    }
  }
}

/// Runs the body on a new thread. Returns `false` if the system refuses one.
private func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
  final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
  let argument = Unmanaged.passRetained(Body(body))
  #if canImport(Glibc)
    var thread = pthread_t()
  #else
    var thread: pthread_t?
  #endif
  let code = pthread_create(
    &thread, nil,
    { argument in
      let argument: UnsafeMutableRawPointer? = argument
      argument.map { Unmanaged<Body>.fromOpaque($0).takeRetainedValue() }?.run()
      return nil
    }, argument.toOpaque())
  guard code == 0 else {
    argument.release()
    return false
  }
  #if canImport(Glibc)
    pthread_detach(thread)
  #else
    if let thread { pthread_detach(thread) }
  #endif
  return true
}
