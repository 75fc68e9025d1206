import ConnectivityClient
import ConnectivityTestKit
import Testing

/// The logs of monitors and guards.
@Suite("Logs of monitors and guards", .timeLimit(.minutes(5)), .namesWaits)
struct MonitorLogTests {
  @Test("C7 connd is away → a monitor and a stream log that once, and each path")
  func away() async throws {
    let (monitorLog, streamLog) = (LogRecorder(), LogRecorder())
    let nowhere: ConndSocket = "/nonexistent/connd.sock"
    for await path in PathMonitor(socket: nowhere, logger: monitorLog.logger) {
      #expect(path == .unknown)
      break
    }
    for await event in StatusStream(socket: nowhere, logger: streamLog.logger) {
      guard case .disconnected = event else { Issue.record("\(event)"); return }
      break
    }
    for log in [monitorLog, streamLog] {
      #expect(log.lines.count { $0.hasPrefix("info connd cannot be reached") } == 1)
    }
    #expect(monitorLog.lines.contains { $0.hasPrefix("debug the path is known") })
  }

  @Test("C10 a guarded socket is no longer viable → its guard logs the reason and the flow")
  func invalidated() async throws {
    let log = LogRecorder()
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let listener = try SilentListener()
      let socket = try LoopbackSocket(port: listener.port)
      let watch = try SocketGuard(
        descriptor: socket.descriptor,
        config: .defaults {
          $0.socket = network.socket
          $0.logger = log.logger
        })
      var events = watch.events.makeAsyncIterator()
      _ = await events.next()
      network.become(.cellular)
      _ = await events.next()
    }
    let line = try #require(log.lines.first { $0.contains("no longer viable") })
    #expect(line.contains("reason=interfaceLost") && line.contains("severity=destroy"))
    #expect(line.contains("remote=127.0.0.1"))
  }
}
