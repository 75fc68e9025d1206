import Glibc
import TestKit
import TestTraits
import Testing

/// Data that applications save on expensive paths. HTTP, TCP and connd are real, and the links
/// count the bytes.
@Suite("Saving data", .needsNamespaces, .blocking)
struct DataSavingScenario {
  private static let port = 8080

  /// A server outside, a machine with a cable and a modem, and connd.
  private struct Bench {
    let lab: Laboratory
    let server: RunningCommand

    init() throws {
      self.lab = try Uplinks.laboratory(["eth0", "wwan0"])
      self.server = try self.lab.outside.spawn(
        [try Programs.callprobe, "serve-http", "--port", "\(DataSavingScenario.port)"])
      try self.server.line { $0.contains("\"ready\"") }
      try self.lab.start()
    }

    func client(_ name: String, _ arguments: [String]) throws -> RunningCommand {
      try self.lab.namespace.spawn(
        [try Programs.callprobe, name, "--socket", self.lab.socket]
          + ["--target", "\(Uplinks.server):\(DataSavingScenario.port)"] + arguments)
    }

    func next(_ event: String, _ id: Int? = nil, of client: RunningCommand) throws -> CallReport {
      while let line = try client.nextLine(within: .seconds(20)) {
        let report: CallReport = try decode(line)
        if report.event == event, id == nil || report.id == id.map(String.init) { return report }
        // No pending report is skipped.
        guard report.event == "begins" || report.event == "part" else {
          throw CommandError("\(report) instead of \(event)")
        }
      }
      throw CommandError("no \(event): \(client.standardError)")
    }

    /// The number of bytes received on a link.
    func received(_ link: String) throws -> Int {
      let text = try self.lab.namespace.run("cat", "/proc/net/dev")
      for line in text.split(separator: "\n") {
        let words = line.split(whereSeparator: { $0 == " " || $0 == ":" })
        if words.first == Substring(link), let count = Int(words[1]) { return count }
      }
      throw CommandError("no counter of \(link): \(text)")
    }

    func end() throws {
      self.server.signal(SIGKILL)
      try self.server.wait()
    }
  }

  /// The minimum number of bytes for each picture with its headers.
  private static let (large, small) = (2_000_000, 50_000)

  @Test(
    "C8 a picture in two sizes, one expression: an expensive path fetches the small one")
  func picture() throws {
    let bench = try Bench()
    /// - Returns: The picture's bytes, and those received on the link.
    func fetch(_ arguments: String..., over link: String) throws -> (picture: Int?, link: Int) {
      let before = try bench.received(link)
      let client = try bench.client("picture", arguments)
      let report = try bench.next("picture", of: client)
      #expect(try client.wait() == 0)
      return (report.message.flatMap { Int($0) }, try bench.received(link) - before)
    }
    let free = try fetch(over: "eth0")
    #expect(free.picture == Self.large && free.link > Self.large, "\(free)")

    #expect(try bench.lab.connctl("constrain", "eth0", "on").status == 0)
    _ = try bench.lab.events { $0.status.constrained }
    let constrained = try fetch(over: "eth0")
    #expect(
      constrained.picture == Self.small && constrained.link < 2 * Self.small, "\(constrained)")

    try bench.lab.ip("link set eth0 down")
    _ = try bench.lab.events { $0.status.expensive }
    let with = try fetch(over: "wwan0")
    #expect(with.picture == Self.small && with.link > Self.small, "\(with)")
    let without = try fetch("--plain", over: "wwan0")
    #expect(without.picture == Self.large, "\(without)")
    #expect(with.link * 20 < without.link)
    print("a picture by wwan0: \(with.link) bytes with the library, \(without.link) without")
    try bench.end()
  }

  @Test(
    "C8 a copy that can wait sends nothing over an expensive path, and resumes where it stopped"
  )
  func copy() throws {
    let (parts, size) = (64, 262_144)
    /// Copies while the cable is pulled after the eighth part, until the copy waits or has ended.
    ///
    /// - Returns: The bytes received on the modem.
    func copy(_ arguments: String..., isHeldBack: Bool) throws -> Int {
      let bench = try Bench()
      let pipe = "\(bench.lab.directory.path)/input-\(UInt64.random(in: 0 ..< .max))"
      guard mkfifo(pipe, 0o600) == 0 else { throw CommandError("\(pipe): errno \(errno)") }
      let input = open(pipe, O_RDWR | O_CLOEXEC)
      defer { close(input) }
      let before = try bench.received("wwan0")
      let client = try bench.lab.namespace.spawn(
        ["sh", "-c", "exec \"$@\" <\"$0\"", pipe, try Programs.callprobe, "backup"]
          + ["--socket", bench.lab.socket, "--target", "\(Uplinks.server):\(Self.port)"]
          + ["--parts", "\(parts)", "--size", "\(size)", "--halt", "8"] + arguments)
      _ = try bench.next("part", 8, of: client)
      try bench.lab.ip("link set eth0 down")
      _ = try bench.lab.events { $0.status.expensive }
      #expect(write(input, "\n", 1) == 1)
      if isHeldBack {
        let wait = try bench.next("waits", of: client)
        #expect(wait.message?.contains("expensive") == true, "\(wait)")
      } else {
        _ = try bench.next("ended", of: client)
      }
      let bytes = try bench.received("wwan0") - before
      if isHeldBack {
        try bench.lab.ip("link set eth0 up")
        try bench.lab.ip("route add default via 10.0.0.1 dev eth0 metric 100")
        _ = try bench.next("ended", of: client)
      }
      #expect(try client.wait() == 0)
      try bench.end()
      return bytes
    }
    let with = try copy(isHeldBack: true)
    let asked = try copy("--user-initiated", isHeldBack: false)
    let without = try copy("--plain", isHeldBack: false)
    // At most ARP.
    #expect(with < 1_000)
    #expect(asked > (parts - 8) * size)
    #expect(without > (parts - 8) * size)
    print(
      "a copy of \(parts * size) bytes by wwan0: \(with) bytes with the library, "
        + "\(asked) where the user asks for it, \(without) without")
  }

  @Test("C8 a user marks the link as expensive → a running transfer ends, and starts again later")
  func underWay() throws {
    let bench = try Bench()
    let client = try bench.client(
      "backup", ["--parts", "4", "--size", "100000", "--slow", "3"])
    // The server sends half of it, and no more.
    _ = try bench.next("begins", 3, of: client)
    try waitUntil("half of it has come") { try bench.received("eth0") > 250_000 }
    let connections = { try bench.lab.namespace.run("ss", "-Htn", "dport", "=", ":\(Self.port)") }
    #expect(try connections().contains("ESTAB"))
    #expect(try bench.lab.connctl("expensive", "eth0", "on").status == 0)
    let wait = try bench.next("waits", of: client)
    #expect(wait.message?.contains("expensive") == true, "\(wait)")
    #expect(try !connections().contains("ESTAB"))
    let before = try bench.received("eth0")
    #expect(try bench.lab.connctl("constrain", "eth0", "on").status == 0)
    let other = try bench.next("waits", of: client)
    #expect(other.message?.contains("constrained") == true, "\(other)")
    // At most ARP.
    #expect(try bench.received("eth0") - before < 1_000)
    #expect(try bench.lab.connctl("expensive", "eth0", "auto").status == 0)
    let last = try bench.next("waits", of: client)
    #expect(last.message?.contains("expensive") == false, "\(last)")
    #expect(try bench.lab.connctl("constrain", "eth0", "auto").status == 0)
    _ = try bench.next("part", 3, of: client)
    _ = try bench.next("ended", of: client)
    #expect(try client.wait() == 0)
    try bench.end()
  }

  @Test("C8 a program that knows nothing of connd is stopped while data is to be saved")
  func anyProgram() throws {
    let bench = try Bench()
    let run = try bench.lab.namespace.spawn(
      [Programs.connctl, "--socket", bench.lab.socket, "run", "--when"]
        + ["not-expensive,not-constrained", "--stop", "--", "sh", "-c", "echo $$; exec sleep 1000"])
    let program = try #require(try run.nextLine())
    func state() throws -> Character? {
      let fields = try Command.run(["cat", "/proc/\(program)/stat"]).split(separator: " ")
      return fields.dropFirst(2).first?.first
    }
    for command in ["constrain", "expensive"] {
      #expect(try bench.lab.connctl(command, "eth0", "on").status == 0)
      try waitUntil("it stands still") { try state() == "T" }
      #expect(try bench.lab.connctl(command, "eth0", "auto").status == 0)
      try waitUntil("it goes on") { try state() == "S" }
    }
    run.signal(SIGTERM)
    #expect(try run.wait() == 128 + Int(SIGTERM))
    try bench.end()
  }
}
