import Glibc
import Synchronization
import TestKit

/// A connection on which the client asks every 10 ms, 100 B up, and waits for the answer, 200 B
/// down.
///
/// Both ends are threads of the test, with sockets in the namespaces of a laboratory.
final class Pulses: Sendable {
  struct Answer: Sendable {
    var asked: ContinuousClock.Instant
    var wait: Duration
  }

  private struct State {
    var answers: [Answer] = []
    /// When the unanswered question was asked.
    var asked: ContinuousClock.Instant?
    var isOver = false
  }

  private let state = Mutex(State())
  private let client: CInt
  private let server: CInt
  private let listener: CInt

  /// - Parameters:
  ///   - address: One of the outside host.
  ///   - isServed: Whether the server speaks Multipath TCP.
  init(_ lab: Laboratory, to address: String, port: UInt16 = 7100, isServed: Bool = true) throws {
    let listener = try lab.outside.perform { () throws -> CInt in
      let listener = try Self.socket(isMultipath: isServed)
      var one: CInt = 1
      setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, 4)
      guard Self.with(address, port, { bind(listener, $0, $1) }) == 0, listen(listener, 8) == 0
      else { throw CommandError("listen: errno \(errno)") }
      return listener
    }
    // The kernel accepts further subflows only while the server listens.
    self.listener = listener
    let client = try lab.namespace.perform { () throws -> CInt in
      let client = try Self.socket(isMultipath: true)
      guard Self.with(address, port, { connect(client, $0, $1) }) == 0 else {
        throw CommandError("connect: errno \(errno)")
      }
      return client
    }
    self.client = client
    let server = accept(listener, nil, nil)
    guard server >= 0 else { throw CommandError("accept: errno \(errno)") }
    self.server = server
    for descriptor in [client, server] {
      var one: CInt = 1
      setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &one, 4)
    }
    startThread {
      var buffer = [UInt8](repeating: 0, count: 200)
      while Self.receive(server, &buffer, 100), send(server, buffer, 200, CInt(MSG_NOSIGNAL)) == 200
      {}
    }
    startThread { [weak self] in
      var buffer = [UInt8](repeating: 0, count: 200)
      while true {
        let asked = ContinuousClock.now
        guard self?.begin(asked) == true, send(client, buffer, 100, CInt(MSG_NOSIGNAL)) == 100,
          Self.receive(client, &buffer, 200)
        else { break }
        self?.end(asked)
        // Until the next question, or the end of the connection.
        var connection = pollfd(fd: client, events: 0, revents: 0)
        poll(&connection, 1, 10)
      }
      self?.state.withLock { $0.isOver = true }
    }
  }

  deinit {
    close(self.listener)
    for descriptor in [self.client, self.server] {
      shutdown(descriptor, CInt(SHUT_RDWR))
      close(descriptor)
    }
  }

  private func begin(_ asked: ContinuousClock.Instant) -> Bool {
    self.state.withLock { state in
      state.asked = asked
      return !state.isOver
    }
  }

  private func end(_ asked: ContinuousClock.Instant) {
    self.state.withLock { state in
      state.answers.append(Answer(asked: asked, wait: .now - asked))
      state.asked = nil
    }
  }

  /// Whether the connection has ended.
  var isOver: Bool { self.state.withLock { $0.isOver } }

  /// The number of answers so far.
  var count: Int { self.state.withLock { $0.answers.count } }

  /// Whether the connection uses Multipath TCP, and did not fall back to TCP.
  var isMultipath: Bool {
    // struct mptcp_info (linux/mptcp.h): the flags follow eight bytes of counts.
    var information = [UInt32](repeating: 0, count: 32)
    var size = socklen_t(128)
    guard getsockopt(self.client, 284, 1, &information, &size) == 0 else { return false }
    return information[2] & 1 == 0
  }

  /// Waits for a number of further answers.
  func expectAnswers(_ number: Int, within deadline: Duration = .seconds(20)) throws {
    let count = self.count
    try waitUntil("\(number) answers arrive", within: deadline) { self.count >= count + number }
  }

  /// The longest wait of a question that was unanswered at or after a moment.
  func longestWait(since moment: ContinuousClock.Instant) -> Duration {
    self.state.withLock { state in
      let waits = state.answers.lazy.filter { $0.asked + $0.wait >= moment }.map(\.wait)
      let open = state.asked.map { ContinuousClock.now - $0 } ?? .zero
      return max(waits.max() ?? .zero, open)
    }
  }

  /// The median wait of the last answers.
  func median(ofLast number: Int) -> Duration { self.quantile(0.5, ofLast: number) }

  /// The wait that this share of the last answers did not exceed.
  func quantile(_ share: Double, ofLast number: Int) -> Duration {
    let waits = self.state.withLock { $0.answers.suffix(number).map(\.wait) }.sorted()
    return waits.isEmpty ? .zero : waits[Int(Double(waits.count - 1) * share)]
  }

  private static func socket(isMultipath: Bool) throws -> CInt {
    let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
    let descriptor = Glibc.socket(AF_INET, kind, isMultipath ? 262 : 0)  // IPPROTO_MPTCP
    guard descriptor >= 0 else { throw CommandError("socket: errno \(errno)") }
    return descriptor
  }

  private static func receive(_ descriptor: CInt, _ buffer: inout [UInt8], _ count: Int) -> Bool {
    recv(descriptor, &buffer, count, CInt(MSG_WAITALL)) == count
  }

  private static func with(
    _ address: String, _ port: UInt16,
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
  ) -> CInt {
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = port.bigEndian
    inet_pton(AF_INET, address, &name.sin_addr)
    return withUnsafePointer(to: &name) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }
}
