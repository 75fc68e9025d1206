import Glibc
import TestKit
import TestTraits
import Testing

/// Recordings that users make themselves, and reports that they share.
@Suite(
  "Recording for others", .needsNamespaces, .blocking)
struct ReportScenario {
  private func laboratory() throws -> Laboratory {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("acme", "203.0.113.7", ipv6: "2001:db8:77::7")
    try lab.namespace.ip("link set acme address 00:1b:63:84:45:e6")
    try lab.namespace.ip(
      "link property add dev acme altname acme-office altname enx001b638445e6")
    try lab.namespace.ip("route add default via 203.0.113.1 dev acme")
    return lab
  }

  /// connctl in the namespace, and its output while it records.
  private func spawn(_ lab: Laboratory, _ arguments: String...) throws -> RunningCommand {
    try lab.namespace.spawn(
      [Programs.connctl] + arguments,
      environment: ["TMPDIR": lab.directory.path, "XDG_RUNTIME_DIR": lab.directory.path])
  }

  /// Waits until the connd that connctl runs has read the kernel. Its file shows that, because the
  /// start is written then.
  private func waitForStart(_ file: String) throws {
    try waitUntil("connd records") {
      var status = stat()
      return stat(file, &status) == 0 && status.st_size > 2000
    }
  }

  private func waitForGrowth(of file: String, by body: () throws -> Void) throws {
    func size() -> Int {
      var status = stat()
      return stat(file, &status) == 0 ? Int(status.st_size) : 0
    }
    let before = size()
    try body()
    try waitUntil("connd records more") { size() > before }
  }

  private static let secrets = [
    "203.0.113.", "2001:db8:77", "acme", "00:1b:63:84:45:e6", "001b638445e6",
  ]
  private static let bytes: [[UInt8]] = [
    [203, 0, 113, 7], [203, 0, 113, 1], [0x20, 0x01, 0x0d, 0xb8, 0, 0x77],
    [0x00, 0x1B, 0x63, 0x84, 0x45, 0xE6], [0x63, 0xFF, 0xFE, 0x84, 0x45, 0xE6],
  ]

  /// A recording of a cable that is pulled and plugged in again.
  private func record(_ lab: Laboratory, _ file: String) throws -> RunningCommand {
    let connctl = try self.spawn(lab, "record", file)
    try self.waitForStart(file)
    try self.waitForGrowth(of: file) { try lab.outside.ip("link set acme down") }
    try self.waitForGrowth(of: file) { try lab.outside.ip("link set acme up") }
    return connctl
  }

  @Test(
    "connctl records with a connd of its own until interrupted, and leaves nothing else behind"
  )
  func record() throws {
    let lab = try self.laboratory()
    let file = "\(lab.directory.path)/it.recording"
    let connctl = try self.record(lab, file)
    connctl.signal(SIGINT)
    #expect(try connctl.wait() == 0)
    let line = try #require(try connctl.nextLine())
    #expect(line.hasPrefix("\(file): ") && line.hasSuffix(" bytes"))
    let replay = try Command.outcome(of: [Programs.connd, "--replay", file])
    #expect(replay.status == 0 && replay.standardError == "")
    #expect(replay.output.contains("\"to\": \"none\"") || replay.output.contains("noCarrier"))
    #expect(
      try Command.outcome(of: ["sh", "-c", "ls -d \(lab.directory.path)/connctl-*"]).status != 0)
    var status = stat()
    #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o600)
  }

  @Test("a report contains nothing recorded literally, and replays to the same events")
  func report() throws {
    let lab = try self.laboratory()
    let (file, report) = ("\(lab.directory.path)/it.recording", "\(lab.directory.path)/it.report")
    let connctl = try self.record(lab, file)
    connctl.signal(SIGTERM)
    #expect(try connctl.wait() == 0)
    let made = try Command.outcome(of: [Programs.connctl, "report", "--recording", file, report])
    #expect(made.status == 0, "\(made.standardError)")
    let (own, others) = (try Self.replay(file), try Self.replay(report))
    #expect(own.contains { $0.contains("\"interface\": \"acme\"") })
    #expect(own.count > 2 && own.count == others.count)
    // Times, words and numbers are the same.
    for (one, other) in zip(own, others) {
      #expect(Self.withoutNames(one) == Self.withoutNames(other))
      for secret in Self.secrets { #expect(!other.contains(secret)) }
    }
    let (recorded, reported) = (try Self.contents(file), try Self.contents(report))
    for secret in Self.secrets.map({ Array($0.utf8) }) + Self.bytes {
      #expect(!reported.holds(secret), "\(secret)")
    }
    #expect(recorded.holds(Self.bytes[0]))
    let text = String(decoding: reported.prefix(4000), as: UTF8.self)
    #expect(text.contains("--- explain\nTraffic leaves by "), "\(text)")
  }

  /// A connd that calls the link a Wi-Fi, and has seen it fail and come back. Root and user 65534
  /// have marked links.
  private func running() throws -> Laboratory {
    let lab = try Laboratory(configuration: "links: [{match: acme, medium: wifi}]")
    try lab.addLink("acme", "203.0.113.7")
    try lab.namespace.ip("route add default via 203.0.113.1 dev acme")
    try lab.start()
    try lab.outside.ip("link set acme down")
    try lab.events { $0.to == "none" }
    try lab.outside.ip("link set acme up")
    try lab.events { $0.to == "wifi" }
    #expect(try lab.connctl("metered", "acme", "on").status == 0)
    return lab
  }

  /// Makes a report in the namespace, and returns its text.
  private func text(of lab: Laboratory, prefix: [String] = []) throws -> String {
    let report = "\(lab.directory.path)/it.report"
    let outcome = try Command.outcome(
      of: lab.namespace.wrapped(
        prefix + [
          Programs.connctl, "--socket", lab.socket, "report", "--for", "100ms", report,
        ]))
    #expect(outcome.status == 0, "\(outcome.standardError)")
    let bytes = try Self.contents(report)
    for secret in Self.secrets { #expect(!bytes.holds(Array(secret.utf8)), "\(secret)") }
    // The recording begins after the text.
    #expect(try Self.replay(report).first?.contains("\"event\": \"snapshot\"") == true)
    try Command.run(["rm", report])
    let text = String(decoding: bytes, as: UTF8.self)
    return String(text.split(separator: "\n--- the recording\n", maxSplits: 1)[0])
  }

  @Test(
    "a report has the running connd's configuration, history and overrides, and its default probes"
  )
  func runningConnd() throws {
    let lab = try self.running()
    let text = try self.text(of: lab)
    #expect(text.contains("in the state of the running connd"))
    #expect(text.contains("--- status\nwifi via link"), "\(text)")
    #expect(text.contains("--- explain\nTraffic leaves by "))
    #expect(text.contains("--- links\nLINK"))
    #expect(text.contains("--- history (UTC)\n"))
    for words in [
      "none → wifi", "carrier lost on link", "metered on link", "by user 0", "medium: wifi",
      "17.0.0.1", "2a00:1::1", ", metered (since",
    ] {
      #expect(text.contains(words), "\(words) in \(text)")
    }
  }

  @Test("a user's report lacks the overrides of other users")
  func unprivileged() throws {
    let lab = try self.running()
    try Command.run(["chmod", "777", lab.directory.path])
    let text = try self.text(
      of: lab, prefix: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    #expect(text.contains("--- status\nwifi via link"), "\(text)")
    // Root's override does not hold in the second connd, which says so.
    let status = try #require(text.firstMatch(of: #/--- status\n(.*)/#))
    #expect(!status.1.contains("metered"), "\(status.1)")
  }

  @Test("connd is not running, or in another namespace → a report from the configuration file")
  func absent() throws {
    let lab = try self.running()
    let report = "\(lab.directory.path)/it.report"
    let foreign = try lab.connctl("report", "--for", "100ms", report)
    #expect(foreign.status == 0 && foreign.standardError.contains("another network namespace"))
    try Command.run(["rm", report])
    let absent = try Command.outcome(
      of: lab.namespace.wrapped([
        Programs.connctl, "--socket", "\(lab.directory.path)/no.sock", "report", "--for", "100ms",
        report,
      ]))
    #expect(
      absent.status == 0 && absent.standardError.contains("with the configuration file alone"))
    let text = String(decoding: try Self.contents(report), as: UTF8.self)
    #expect(text.contains("could not be asked") && !text.contains("no.sock"))
    #expect(text.contains("--- history (UTC)\n"))
  }

  @Test("without a recording, connctl report records for a moment")
  func moment() throws {
    let lab = try self.laboratory()
    let report = "\(lab.directory.path)/it.report"
    let connctl = try self.spawn(lab, "report", "--for", "100ms", report)
    #expect(try connctl.wait() == 0)
    #expect(try Self.replay(report).first?.contains("\"event\": \"snapshot\"") == true)
  }

  @Test("connctl cannot record → an error with the reason, and no existing file is touched")
  func refusals() throws {
    let lab = try self.laboratory()
    let there = try lab.directory.write("mine", to: "there")
    let recording = Checkout.path("Tests/Fixtures/recordings/failover.recording")
    let replaced = try Command.outcome(
      of: [Programs.connd, "--replay", recording, "--report", there])
    #expect(replaced.status == 1 && replaced.standardError.contains("already exists"))
    // A link planted by another user would leak the report.
    let link = "\(lab.directory.path)/link"
    try Command.run(["ln", "-s", "\(lab.directory.path)/elsewhere", link])
    let refused = try Command.outcome(of: [Programs.connd, "--replay", recording, "--report", link])
    #expect(refused.status == 1 && refused.standardError.contains("already exists"))
    for command in ["record", "report"] {
      let taken = try Command.outcome(of: [Programs.connctl, command, there])
      #expect(taken.status == 1)
      #expect(taken.standardError.contains("already exists"))
      let missing = try Command.outcome(of: [Programs.connctl, command, "/no/such/file"])
      #expect(missing.status == 1)
      #expect(missing.standardError.contains("No such file or directory"))
    }
    #expect(String(decoding: try Self.contents(there), as: UTF8.self) == "mine")
    // A full disk.
    let small = "\(lab.directory.path)/small"
    try Command.run(["mkdir", small])
    let full = try Command.outcome(of: [
      "unshare", "--mount", "sh", "-c", #"mount -t tmpfs -o size=4k none "$0" && exec "$@""#, small,
      Programs.connctl, "record", "--for", "100ms", "\(small)/it.recording",
    ])
    #expect(full.status == 1)
    #expect(full.standardError.contains("No space left on device"))
    #expect(full.standardError.contains("there was no room for more"))
    // A file that is not a recording.
    let report = "\(lab.directory.path)/it.report"
    let broken = try Command.outcome(of: [Programs.connctl, "report", "--recording", there, report])
    #expect(broken.status == 1 && broken.standardError.contains("is not a recording"))
    #expect(access(report, F_OK) != 0)
    // Without a connd beside it or in PATH.
    let alone = "\(lab.directory.path)/connctl"
    try Command.run(["cp", Programs.connctl, alone])
    let lonely = try Command.outcome(of: [
      "env", "PATH=/nowhere", alone, "record", "\(alone).recording",
    ])
    #expect(lonely.status == 69)
    #expect(lonely.standardError.contains("cannot run “connd”"))
    #expect(access("\(alone).recording", F_OK) != 0)
  }

  private static func replay(_ file: String) throws -> [String] {
    let replay = try Command.outcome(of: [Programs.connd, "--replay", file])
    #expect(replay.status == 0 && replay.standardError == "")
    return replay.output.split(separator: "\n").map(String.init)
  }

  /// A line without its addresses and the names of links.
  private static func withoutNames(_ line: String) -> String {
    line.split(separator: "\"").map { text in
      text == "acme" || text.hasPrefix("link") && text.count == 9
        || text.contains(".") && !text.hasSuffix("Z") && !text.contains(" ")
        || text.contains(":") && text.allSatisfy { $0.isHexDigit || $0 == ":" } && text != ":"
        ? "*" : String(text)
    }.joined(separator: "\"")
  }

  private static func contents(_ file: String) throws -> [UInt8] {
    let stream = try #require(fopen(file, "r"))
    defer { fclose(stream) }
    var bytes = [UInt8](repeating: 0, count: 1 << 24)
    let count = fread(&bytes, 1, bytes.count, stream)
    return Array(bytes.prefix(count))
  }
}
