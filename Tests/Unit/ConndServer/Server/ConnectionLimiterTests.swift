import Logging
import Synchronization
import Testing
import UnixTransport

@testable import ConndServer

@Suite("ConnectionLimiter")
struct ConnectionLimiterTests {
  @Test("each limit is logged separately, and not once per client")
  func log() {
    let lines = Lines()
    let keeper = ConnectionLimiter(
      Limits(), statistics: Statistics(), logger: Logger(label: "test") { _ in lines })
    let peer = PeerCredentials(uid: 1000, pid: 7)
    for _ in 0..<100 { keeper.turnedAway(peer, limit: "messageSize") }
    for _ in 0..<100 { keeper.turnedAway(peer, limit: "streams") }
    #expect(
      lines.all == [
        "a client has exceeded limits.messageSize", "a client has exceeded limits.streams",
      ])
  }
}

/// Keeps the messages that are logged.
private final class Lines: LogHandler {
  private let lines = Mutex<[String]>([])
  var all: [String] { self.lines.withLock { $0 } }

  var metadata: Logger.Metadata {
    get { [:] }
    set {}
  }
  var logLevel: Logger.Level {
    get { .notice }
    set {}
  }
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { nil }
    set {}
  }

  func log(event: LogEvent) { self.lines.withLock { $0.append("\(event.message)") } }
}
