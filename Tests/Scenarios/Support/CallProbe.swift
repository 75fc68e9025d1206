import Glibc
import TestKit
import Testing

/// A line that `callprobe` prints; `at` is in nanoseconds of CLOCK_MONOTONIC.
struct CallReport: Decodable, Hashable {
  var event: String
  var at: UInt64
  var channel: Int?
  var id: String?
  var kind: String?
  var code: String?
  var reason: String?
  var message: String?
  var state: String?
  var local: String?
  var remote: String?
  var method: String?
}

/// Calls in flight on one channel: a unary one, and one of each kind of streaming.
struct OpenCalls {
  var channel: Int
  var ids: [String: String]
  /// The local address of their connection.
  var local: String
}

/// `callprobe call`, or another of its interactive commands, in a laboratory's namespace.
///
/// Used by one thread.
final class CallProbe {
  let command: RunningCommand
  /// The writing end of its standard input.
  private let input: CInt
  /// Reports that were read and not taken yet.
  private var reports: [CallReport] = []
  private var lastCall = 0
  private static let kinds = ["unary", "client", "server", "bidi"]

  /// - Parameters:
  ///   - targets: one for each channel.
  ///   - namespace: where it runs, if not in the laboratory's.
  ///   - prefix: a command that runs it.
  init(
    _ lab: Laboratory, to targets: [String], _ arguments: [String] = [],
    in namespace: NetworkNamespace? = nil, command: String = "call", prefix: [String] = []
  ) throws {
    let pipe = "\(lab.directory.path)/input-\(UInt64.random(in: 0 ..< .max))"
    guard mkfifo(pipe, 0o600) == 0 else { throw CommandError("\(pipe): errno \(errno)") }
    // Open at both ends, so that neither side waits for the other.
    self.input = Glibc.open(pipe, O_RDWR | O_CLOEXEC)
    guard self.input >= 0 else { throw CommandError("\(pipe): errno \(errno)") }
    self.command = try (namespace ?? lab.namespace).spawn(
      ["sh", "-c", "exec \"$@\" <\"$0\"", pipe] + prefix + [try Programs.callprobe, command]
        + ["--socket", lab.socket] + targets.flatMap { ["--target", $0] } + arguments)
  }

  deinit { close(self.input) }

  /// The current time, on the clock of the reports.
  static var now: UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
  }

  /// Sends it one line.
  func send(_ line: String) throws {
    let bytes = Array("\(line)\n".utf8)
    guard write(self.input, bytes, bytes.count) == bytes.count else {
      throw CommandError("no input: errno \(errno)")
    }
  }

  /// The first untaken report of this event, and of this call if one is named.
  ///
  /// - Throws: if it does not come in time.
  @discardableResult
  func next(
    _ event: String, of id: String? = nil, within deadline: Duration = .seconds(20),
    where matches: (CallReport) -> Bool = { _ in true }
  ) throws -> CallReport {
    func isMeant(_ report: CallReport) -> Bool {
      report.event == event && (id == nil || report.id == id) && matches(report)
    }
    if let index = self.reports.firstIndex(where: isMeant) {
      return self.reports.remove(at: index)
    }
    let patience = Patience(deadline)
    do {
      while let line = try self.command.nextLine(within: patience) {
        let report: CallReport = try decode(line)
        if isMeant(report) { return report }
        self.reports.append(report)
      }
    } catch {
      throw CommandError(
        "no \(event) of \(id ?? "any"): \(error); \(self.reports); \(self.command.standardError)")
    }
    throw CommandError("callprobe has ended: \(self.command.standardError)")
  }

  /// The number of untaken reports for which `matches` holds.
  func count(where matches: (CallReport) -> Bool) -> Int { self.reports.count(where: matches) }

  // MARK: Calls

  private func newID(_ kind: String, _ channel: Int) -> String {
    self.lastCall += 1
    return "\(self.command.processIdentifier)-\(channel)-\(kind)-\(self.lastCall)"
  }

  /// Starts a call of each kind, and returns when the server has accepted them all.
  func open(_ channel: Int) throws -> OpenCalls {
    var calls = OpenCalls(channel: channel, ids: [:], local: "")
    for kind in Self.kinds {
      let id = self.newID(kind, channel)
      calls.ids[kind] = id
      try self.send("start \(channel) \(kind) \(id)")
    }
    for id in calls.ids.values { calls.local = try self.next("open", of: id).local ?? "" }
    for kind in ["server", "bidi"] { try self.next("message", of: calls.ids[kind]) }
    return calls
  }

  /// Checks that all calls end with UNAVAILABLE for one of these reasons; `nil` stands for an end
  /// without connd's reason. Prints how long that took since the given moment.
  func expectEnded(
    _ calls: OpenCalls, _ reasons: [String?], since moment: UInt64, _ what: String,
    within limit: Duration = .seconds(10), sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    var longest = Duration.zero
    for kind in Self.kinds {
      let end = try self.next("ended", of: calls.ids[kind])
      #expect(end.code == "unavailable", "\(end)", sourceLocation: sourceLocation)
      #expect(reasons.contains(end.reason), "\(end)", sourceLocation: sourceLocation)
      longest = max(longest, .nanoseconds(Int64(end.at) - Int64(moment)))
    }
    #expect(longest < limit, sourceLocation: sourceLocation)
    print("\(what): channel \(calls.channel): four calls UNAVAILABLE after \(longest)")
  }

  /// Checks that all calls go on: their streams carry messages in both directions, and they end
  /// well.
  func expectUndisturbed(
    _ calls: OpenCalls, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    for kind in ["client", "bidi"] {
      try self.send("write \(calls.channel) \(calls.ids[kind] ?? "")")
    }
    try self.next("message", of: calls.ids["bidi"]) { $0.message == "more" }
    for id in calls.ids.values { try self.send("finish \(calls.channel) \(id)") }
    let answers = [
      "unary": "released", "client": "first more", "server": "released", "bidi": "more",
    ]
    for (kind, answer) in answers {
      let end = try self.next("ended", of: calls.ids[kind])
      #expect(end.code == "ok", "\(end)", sourceLocation: sourceLocation)
      #expect(end.message == answer, "\(end)", sourceLocation: sourceLocation)
    }
  }

  /// Starts a unary call, which the server answers immediately.
  func startQuick(_ channel: Int) throws -> String {
    let id = self.newID("quick", channel)
    try self.send("quick \(channel) \(id)")
    return id
  }

  /// Starts this number of unary calls at an interval.
  ///
  /// - Returns: their IDs, in order.
  func startSeries(_ channel: Int, _ count: Int, every interval: Duration) throws -> [String] {
    let id = self.newID("series", channel)
    try self.send("series \(channel) \(count) \(Int(interval / .milliseconds(1))) \(id)")
    return (0..<count).map { "\(id)-\($0)" }
  }

  /// Makes a call that forbids expensive paths.
  ///
  /// - Returns: how it ended.
  func spareCall(_ channel: Int) throws -> CallReport {
    let id = self.newID("spare", channel)
    try self.send("spare \(channel) \(id)")
    return try self.next("ended", of: id)
  }

  /// Checks that the next call succeeds, from this local address and to this remote one, if they
  /// are given. Prints how long it took.
  ///
  /// - Parameter goal: How long it may take on a quiet machine, or `nil` without a goal.
  @discardableResult
  func expectNextCall(
    _ channel: Int, from local: String? = nil, to remote: String? = nil, _ what: String,
    within limit: Duration = .seconds(10), goal: Duration? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Duration {
    let id = try self.startQuick(channel)
    return try self.expectSuccess(
      of: id, from: local, to: remote, what, within: limit, goal: goal,
      sourceLocation: sourceLocation)
  }

  /// Checks the same for a call that was started before.
  @discardableResult
  func expectSuccess(
    of id: String, from local: String? = nil, to remote: String? = nil, _ what: String,
    within limit: Duration = .seconds(10), goal: Duration? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Duration {
    let start = try self.next("started", of: id)
    let end = try self.next("ended", of: id, within: limit * 2)
    let duration = Duration.nanoseconds(Int64(end.at) - Int64(start.at))
    #expect(
      end.code == "ok", "\(end) \(self.command.standardError)", sourceLocation: sourceLocation)
    Timings.expect(duration, below: goal, what, sourceLocation: sourceLocation)
    guard end.code == "ok" else { return duration }
    let open = try self.next("open", of: id)
    if let local {
      #expect(
        open.local?.hasPrefix("ipv4:\(local):") == true, "\(open)", sourceLocation: sourceLocation)
    }
    if let remote {
      #expect(open.remote == "ipv4:\(remote)", "\(open)", sourceLocation: sourceLocation)
    }
    return duration
  }

  /// The channels that gave up a connection without progress (W4).
  var stalledChannels: Set<Int> {
    let lines = self.command.standardError.split(separator: "\n").filter {
      $0.contains("the connection makes no progress")
    }
    return Set(
      (0..<100).filter { channel in lines.contains { $0.contains(" channel \(channel):") } })
  }

  /// Waits until each of these calls has ended, or its channel has given up the connection. The
  /// index of a call is that of its channel.
  func awaitStall(of calls: [String]) throws {
    try waitUntil("each call has ended or stalled") {
      try self.synchronize()
      let stalled = self.stalledChannels
      return calls.enumerated().allSatisfy { channel, call in
        stalled.contains(channel) || self.reports.contains { $0.event == "ended" && $0.id == call }
      }
    }
  }

  /// Reads the reports of everything that has happened.
  private func synchronize() throws {
    self.lastCall += 1
    try self.send("sync \(self.lastCall)")
    try self.next("synced", of: "\(self.lastCall)")
  }

  /// Whether all these calls have ended, according to the input read so far.
  func haveEnded(_ calls: [String]) throws -> Bool {
    try self.synchronize()
    let ended = Set(self.reports.filter { $0.event == "ended" }.compactMap(\.id))
    return ended.isSuperset(of: calls)
  }

  /// Checks that these calls have not ended, according to the input read so far.
  func expectOpen(
    _ calls: OpenCalls, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try self.synchronize()
    let ended = self.reports.filter { report in
      report.event == "ended" && calls.ids.values.contains { $0 == report.id }
    }
    #expect(ended.isEmpty, sourceLocation: sourceLocation)
  }

  /// Checks that it exits on request, whatever is in flight.
  func quit(sourceLocation: SourceLocation = #_sourceLocation) throws {
    try self.send("quit")
    try self.next("quit")
    let status = try self.command.wait()
    #expect(status == 0, "\(self.command.standardError)", sourceLocation: sourceLocation)
  }
}

/// `callprobe serve`, outside of a laboratory.
final class CallServer {
  static let port = 50051
  private let command: RunningCommand
  /// The IDs of the calls that were read so far.
  private var ids: [String] = []

  /// - Parameter prefix: a command that runs it.
  init(
    _ lab: Laboratory, port: Int = CallServer.port, _ arguments: [String] = [],
    prefix: [String] = []
  ) throws {
    self.command = try lab.outside.spawn(
      prefix + [try Programs.callprobe, "serve", "--port", "\(port)"] + arguments)
    try self.command.line { $0.contains("\"ready\"") }
  }

  /// Reads its reports of this number of calls. It stops when the pipe with its reports is full,
  /// after some 600 calls.
  func read(_ count: Int) throws {
    for _ in 0..<count {
      if let line = try self.command.nextLine() { try self.note(line) }
    }
  }

  func signal(_ number: CInt) { self.command.signal(number) }

  private func note(_ line: String) throws {
    if let id = try decode(line, as: CallReport.self).id { self.ids.append(id) }
  }

  /// Kills it, and checks that no call arrived twice (C6).
  func end(sourceLocation: SourceLocation = #_sourceLocation) throws {
    self.command.signal(SIGKILL)
    for line in try self.command.remainingOutput().split(separator: "\n") {
      try self.note(String(line))
    }
    let count = Set(self.ids).count
    #expect(count == self.ids.count, "\(self.ids)", sourceLocation: sourceLocation)
    try self.command.wait()
  }
}
