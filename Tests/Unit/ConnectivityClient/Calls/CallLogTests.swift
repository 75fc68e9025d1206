import Connectivity
import GRPCCore
import Logging
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Call log")
struct CallLogTests {
  private static let method = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Get")
  private static let start = ContinuousClock.now

  private func makeLog(_ lines: LogLines, level: Logger.Level = .trace) throws -> CallLog {
    try #require(
      CallLog(
        CallSettings(logger: lines.logger(level), requestID: .userDefined("7")),
        method: Self.method, now: Self.start))
  }

  @Test("C9 without a logger nothing is logged")
  func silent() {
    #expect(CallLog(CallSettings(), method: Self.method) == nil)
  }

  @Test("C9 the channel's logger is used for calls without their own")
  func channel() throws {
    let (channel, call) = (LogLines(), LogLines())
    let settings = CallSettings(logger: channel.logger(.trace))
    try #require(CallLog(CallSettings().filled(from: settings), method: Self.method)).started()
    #expect(channel.all.count == 1)
    let own = CallSettings(logger: call.logger(.trace)).filled(from: settings)
    try #require(CallLog(own, method: Self.method)).started()
    #expect(channel.all.count == 1)
    #expect(call.all.count == 1)
  }

  @Test(
    "C9 a call is logged from start to end, with its connection once it has one")
  func steps() throws {
    let lines = LogLines()
    let log = try self.makeLog(lines)
    log.started()
    log.waiting()
    log.assigned(to: ["grpc_connection_id": "c1", "network_interface": "wlan0"])
    log.ended(GRPCCore.Status(code: .ok, message: ""), now: Self.start + .milliseconds(1234))

    #expect(
      lines.all.map(\.text) == [
        "call started", "call waits for a connection", "call is sent",
        "call ended with ok after 1234 ms",
      ])
    #expect(lines.all.map(\.level) == [.trace, .trace, .trace, .debug])
    for line in lines.all {
      #expect(line.metadata["grpc_request_id"] == "7")
      #expect(line.metadata["grpc_service"] == "echo.Echo")
      #expect(line.metadata["grpc_method"] == "Get")
    }
    #expect(
      lines.all.map { $0.metadata["grpc_connection_id"] } == [nil, nil, "c1", "c1"])
    #expect(log.logger?[metadataKey: "network_interface"] == "wlan0")
    #expect(lines.all.last?.metadata["grpc_status"] == "ok")
    #expect(lines.all.last?.metadata["duration_ms"] == "1234")
  }

  @Test("C9 without an ID, the logger's own ID stays")
  func ownID() throws {
    let lines = LogLines()
    var logger = lines.logger(.trace)
    logger[metadataKey: "grpc_request_id"] = "mine"
    try #require(
      CallLog(
        CallSettings(logger: logger, requestID: RequestIDProvider.omitted), method: Self.method)
    ).started()
    #expect(lines.all.first?.metadata["grpc_request_id"] == "mine")
  }

  private static let invalidation = InvalidationError(
    reason: .interfaceLost, severity: .destroy, cause: ChangeCause(.link, "carrierLost"), path: nil)

  @Test(
    "C9 the end of a call is logged with its code, at info level if the network caused it",
    arguments: [
      (RPCError(code: .notFound, message: "none"), .debug, "notFound", [:]),
      (RPCError(code: .unavailable, message: "gone"), .info, "unavailable", [:]),
      (
        RPCError(code: .unavailable, message: "gone", cause: invalidation), .info, "unavailable",
        ["invalidation": "interfaceLost"]
      ),
      (
        RPCError(
          NetworkUnavailableError(
            reason: .cellular, path: KernelPath(status: .satisfied, medium: .cellular))),
        .info, "unavailable", ["network_unavailable_reason": "cellular"]
      ),
      (CancellationError(), .debug, "cancelled", [:]),
      (
        RPCError(code: .unknown, message: "", cause: CancellationError()), .debug, "cancelled", [:]
      ),
      (Odd(), .debug, "an error", ["grpc_status_message": "odd"]),
    ] as [(any Error, Logger.Level, String, [String: String])])
  func ends(error: any Error, level: Logger.Level, outcome: String, more: [String: String]) throws {
    let lines = LogLines()
    try self.makeLog(lines).ended(throwing: error, now: Self.start + .milliseconds(5))
    let line = try #require(lines.all.first)
    #expect(line.level == level)
    #expect(line.text == "call ended with \(outcome) after 5 ms")
    for (key, value) in more { #expect(line.metadata[key] == .string(value)) }
    #expect((line.metadata["invalidation"] != nil) == (more["invalidation"] != nil))
  }

  @Test(
    "C9 a call ends because of an invalidation → its message has the reason and the cause",
    arguments: [
      (.interfaceLost, "interface lost"), (.betterPath, "better path"), (.silent, "silent"),
      (.policy, "policy"),
    ] as [(Invalidation.Reason, String)])
  func invalidationText(reason: Invalidation.Reason, words: String) {
    var error = Self.invalidation
    error.reason = reason
    error.cause.interface = "eth0"
    error.cause.message = "RTM_NEWLINK"
    #expect(
      RPCError(error).message
        == "connd invalidated the connection: \(words) (carrier lost on eth0).")
  }

  @Test("C9 the status UNAVAILABLE is logged at info level, with its message")
  func unavailable() throws {
    let lines = LogLines()
    try self.makeLog(lines, level: .info).ended(Status(code: .unavailable, message: "closed"))
    #expect(lines.all.first?.level == .info)
    #expect(lines.all.first?.metadata["grpc_status_message"] == "closed")
  }

  @Test("C9 a header without a logger logs nothing")
  func headerAlone() throws {
    let log = try #require(
      CallLog(CallSettings(requestIDHeader: "x-request-id"), method: Self.method))
    log.assigned(to: ["grpc_connection_id": "c1"])
    log.ended(Status(code: .ok, message: ""))
    #expect(log.logger == nil)
  }
}

private typealias Status = GRPCCore.Status

private struct Odd: Error, CustomStringConvertible {
  var description: String { "odd" }
}

/// The logged lines.
final class LogLines: Sendable {
  struct Line: Sendable {
    var level: Logger.Level
    var text: String
    var metadata: Logger.Metadata
  }

  private let lines = Mutex<[Line]>([])

  var all: [Line] { self.lines.withLock { $0 } }

  /// A logger that records its messages.
  func logger(_ level: Logger.Level) -> Logger {
    Logger(label: "test") { _ in Handler(lines: self, logLevel: level) }
  }

  private struct Handler: LogHandler {
    let lines: LogLines
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { self.metadata[key] }
      set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let all = self.metadata.merging(event.metadata ?? [:]) { $1 }
      self.lines.lines.withLock {
        $0.append(Line(level: event.level, text: "\(event.message)", metadata: all))
      }
    }
  }
}
