import Glibc
import Logging
import Testing

@testable import Systemd

struct LogHandlerTests {
  private func event(
    _ message: Logger.Message, level: Logger.Level = .warning, metadata: Logger.Metadata? = nil,
    error: (any Error)? = nil
  ) -> LogEvent {
    LogEvent(
      level: level, message: message, error: error, metadata: metadata, source: nil,
      file: "Connd/Monitor.swift", function: "run()", line: 7)
  }

  private func line(
    _ event: LogEvent, metadata: Logger.Metadata = [:], showsTime: Bool = false
  ) -> String {
    var handler = StandardErrorLogHandler(
      identifier: "connd", level: .info, metadataProvider: nil, showsTime: showsTime)
    handler.metadata = metadata
    return handler.line(for: event, at: timespec(tv_sec: 1_795_224_300, tv_nsec: 7_000_000))
  }

  // MARK: Standard error

  @Test("a line on standard error has program, level, message and sorted metadata")
  func readableLine() {
    let event = self.event(
      "category changed", metadata: ["interface": "wlan0", "category": "wifi", "count": "\(2)"])
    #expect(
      self.line(event)
        == "connd: warning: category changed category=wifi count=2 interface=wlan0\n")
  }

  @Test("the statement's metadata beats the logger's, and an error is included")
  func metadataOrder() {
    let event = self.event(
      "failed", level: .error, metadata: ["link": "eth0"], error: SystemdError("read", errno: EIO))
    #expect(
      self.line(event, metadata: ["link": "lo", "loop": "monitor"])
        == "connd: error: failed error=\"read: Input/output error\" link=eth0 loop=monitor\n")
  }

  @Test(
    "ambiguous values are quoted, and cannot forge a line",
    arguments: [
      ("plain", "plain"), ("", "\"\""), ("two words", "\"two words\""), ("a=b", "\"a=b\""),
      ("say \"x\"", "\"say \\\"x\\\"\""), ("a\nconnd: error: b", "\"a\\nconnd: error: b\""),
      ("\u{1b}[31m", "\\u{1B}[31m"), ("größe", "größe"), ("a\u{2028}b", "a\\u{2028}b"),
      ("a\u{202E}b", "a\\u{202E}b"),
    ])
  func quoting(value: String, shown: String) {
    #expect(
      self.line(self.event("m", metadata: ["k": "\(value)"])) == "connd: warning: m k=\(shown)\n")
  }

  @Test("lists and dictionaries are in a fixed order")
  func nestedMetadata() {
    let event = self.event(
      "m", metadata: ["chain": ["vlan10", "eth0"], "flags": .dictionary(["b": "2", "a": "1"])])
    #expect(
      self.line(event) == "connd: warning: m chain=\"[vlan10, eth0]\" flags=\"{a: 1, b: 2}\"\n")
  }

  @Test("on a terminal the time of day is shown")
  func time() throws {
    let line = self.line(self.event("m"), showsTime: true)
    // Minutes and seconds, because the hour depends on the time zone.
    #expect(line.contains(/^\d\d:25:00\.007 connd: warning: m\n$/))
  }

  @Test("standard error gets whole lines, from the given level on")
  func standardError() async throws {
    let result = try await #require(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) {
      var logger = Logger(label: "connd.test") { _ in
        StandardErrorLogHandler(identifier: "connd", level: .notice)
      }
      logger[metadataKey: "interface"] = "eth0"
      logger.info("not this")
      logger.notice("this")
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("connd: notice: this interface=eth0\n"))
    #expect(!text.contains("not this"))
  }

  // MARK: The journal

  @Test("the journal gets a field for each key, and the whole line as MESSAGE")
  func journalFields() {
    let handler = JournalLogHandler(label: "connd.monitor", identifier: "connd")
    let event = self.event("changed", metadata: ["category": "wifi", "generation": "17"])
    let entry = LogEntry(event, metadata: handler.metadata, provider: nil)
    #expect(
      handler.fields(of: entry, from: event) == [
        "MESSAGE=changed category=wifi generation=17", "PRIORITY=4", "SYSLOG_IDENTIFIER=connd",
        "LOGGER=connd.monitor", "CODE_FILE=Connd/Monitor.swift", "CODE_LINE=7", "CODE_FUNC=run()",
        "CATEGORY=wifi", "GENERATION=17",
      ])
  }

  @Test("a field has the raw value, including line breaks")
  func rawFields() {
    let handler = JournalLogHandler(label: "connd", identifier: "connd")
    let event = self.event("m", metadata: ["text": "a\nb"])
    let entry = LogEntry(event, metadata: [:], provider: nil)
    #expect(handler.fields(of: entry, from: event).last == "TEXT=a\nb")
  }

  @Test(
    "field names are converted to what journald accepts",
    arguments: [
      ("category", "CATEGORY"), ("threeWay", "THREE_WAY"), ("grpc-request.id", "GRPC_REQUEST_ID"),
      ("isWWAN", "IS_WWAN"), ("_uid", "UID"), ("4in6", "IN6"), ("message", "MESSAGE_"),
      ("größe", "GR____E"), ("-", nil), ("", nil),
      (String(repeating: "x", count: 80), String(repeating: "X", count: 63)),
    ] as [(String, String?)])
  func fieldNames(key: String, name: String?) {
    #expect(JournalLogHandler.fieldName(key) == name)
  }

  @Test("severities are syslog's")
  func priorities() {
    let priorities = Logger.Level.allCases.map(JournalLogHandler.priority)
    #expect(Logger.Level.allCases == [.trace, .debug, .info, .notice, .warning, .error, .critical])
    #expect(priorities == [7, 7, 6, 5, 4, 3, 2])
  }

  // MARK: The choice

  @Test("D2 the journal is chosen only if standard error is still its stream")
  func destination() throws {
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    defer { ends.forEach { close($0) } }
    var file = stat()
    #expect(fstat(ends[1], &file) == 0)
    let stream = "\(file.st_dev):\(file.st_ino)"

    #expect(LogDestination.detect(journalStream: stream, descriptor: ends[1]) == .journal)
    #expect(LogDestination.detect(journalStream: "1:1", descriptor: ends[1]) == .standardError)
    #expect(LogDestination.detect(journalStream: nil, descriptor: ends[1]) == .standardError)
    #expect(LogDestination.detect(journalStream: stream, descriptor: -1) == .standardError)
  }
}
