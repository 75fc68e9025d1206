import Glibc
import Synchronization
import TestKit

/// Continuous traffic over a connection, from a thread of its own: the client sends a byte at an
/// interval, and the server echoes it. Ends with ``stop()``.
final class Traffic: Sendable {
  private struct State {
    var isStopping = false
    var hasStopped = false
    /// The number of bytes that the client has received.
    var answers = 0
  }

  private let state = Mutex(State())

  init(client: CInt, server: CInt, every interval: Duration) {
    let milliseconds = CInt(
      interval.components.seconds * 1000
        + interval.components.attoseconds / 1_000_000_000_000_000)
    startThread { [self] in
      var next = ContinuousClock.now
      while !self.state.withLock({ $0.isStopping }) {
        if ContinuousClock.now >= next {
          var byte: UInt8 = 0
          _ = send(client, &byte, 1, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT))
          next = ContinuousClock.now + interval
        }
        var descriptors = [client, server].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        guard poll(&descriptors, 2, min(milliseconds, 20)) > 0 else { continue }
        if descriptors[0].revents != 0 {
          let count = Self.take(client)
          guard count > 0 else { break }
          self.state.withLock { $0.answers += count }
        }
        if descriptors[1].revents != 0 {
          let count = Self.take(server)
          guard count > 0 else { break }
          let bytes = [UInt8](repeating: 0, count: count)
          _ = send(server, bytes, count, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT))
        }
      }
      self.state.withLock { $0.hasStopped = true }
    }
  }

  private static func take(_ descriptor: CInt) -> Int {
    var bytes = [UInt8](repeating: 0, count: 4096)
    return recv(descriptor, &bytes, bytes.count, CInt(MSG_DONTWAIT))
  }

  var answers: Int { self.state.withLock { $0.answers } }

  /// Waits until more answers have come.
  func awaitAnswers(_ count: Int = 3) throws {
    let wanted = self.answers + count
    try waitUntil("bytes come back") { self.answers >= wanted }
  }

  /// Ends the traffic; bytes on their way stay there.
  func stop() {
    self.state.withLock { $0.isStopping = true }
    while !self.state.withLock({ $0.hasStopped }) { sched_yield() }
  }
}
