import Glibc
import TestKit
import TestTraits
import Testing

/// `connctl guard --stdin`, which guards the connections that its input names.
@Suite("Guard as a coprocess", .needsNamespaces, .blocking)
struct CoprocessScenario {
  private func start(_ lab: Laboratory) throws -> GuardedProgram {
    try GuardedProgram([Programs.connctl, "guard", "--stdin"], lab)
  }

  /// The id in a line of output, or `nil` if it has none.
  private func id(_ line: String) -> Int? {
    line.firstMatch(of: #/"id": (\d+)/#).flatMap { Int($0.1) }
  }

  /// Takes this number of lines with an event, and returns their ids.
  private func ids(
    _ count: Int, _ event: String, _ program: GuardedProgram
  ) throws -> [Int] {
    try (0..<count).compactMap { _ in
      self.id(try program.next(#"{"event": "\#(event)","#, within: .seconds(60)))
    }.sorted()
  }

  @Test(
    "I2 I7 a thousand connections on two links: the cable is pulled → exactly its connections are destroyed; connd restarts → exactly the others continue"
  )
  func pulled() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.startConnd()
    let program = try self.start(lab)
    for id in 1...1000 {
      // Odd ones use the cable.
      let subnet = id % 2 == 1 ? "10.0.0" : "10.1.0"
      try program.send("+\(id) \(subnet).1:7000 \(subnet).2:\(1024 + id) number \(id)")
      if id % 100 == 0 { try program.send("+\(id + 1000) somewhere:1 \(subnet).2:1") }
    }
    #expect(try self.ids(10, "error", program) == Array(stride(from: 1100, through: 2000, by: 100)))
    #expect(try self.ids(1000, "path", program) == Array(1...1000))
    for id in 1...100 { try program.send("-\(id)") }
    try waitUntil("connd guards 100 connections less") {
      try lab.statistics().guardedFlows == 900
    }
    try lab.unplug("eth0")
    let destroyed = try (0..<450).map { _ in
      try program.next(#"{"event": "invalidation","#, within: .seconds(60))
    }
    #expect(destroyed.allSatisfy { $0.contains(#""severity": "destroy""#) })
    #expect(
      destroyed.compactMap(self.id).sorted() == Array(stride(from: 101, through: 1000, by: 2)))
    #expect(
      destroyed.allSatisfy { line in
        self.id(line).map { line.hasSuffix(#""name": "number \#($0)"}"#) } ?? false
      })

    let connd = try #require(lab.connd)
    connd.signal(SIGKILL)
    try connd.wait()
    try lab.startConnd()
    #expect(try self.ids(450, "path", program) == Array(stride(from: 102, through: 1000, by: 2)))
    #expect(program.lines == [])
  }

  @Test("D4 connd guards no more connections of a stream → an error with the id, the others go on")
  func limited() throws {
    let lab = try Uplinks.laboratory(["eth0"], configuration: "limits: {flowsPerStream: 2}\n")
    try lab.startConnd()
    let program = try self.start(lab)
    for id in 1...3 { try program.send("+\(id) 10.0.0.1:7000 10.0.0.2:\(1024 + id)") }
    let error = try program.next(#"{"event": "error","#)
    #expect(self.id(error) == 3 && error.contains("limits.flowsPerStream"), "\(error)")
    #expect(try self.ids(2, "path", program) == [1, 2])
    // The place of a removed one is free.
    try program.send("-1")
    try program.send("+4 10.0.0.1:7000 10.0.0.2:1028")
    #expect(try self.ids(1, "path", program) == [4])
  }

  @Test("a script writes all lines before it reads any → no line waits; its input ends → exit 0")
  func unread() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.startConnd()
    let script = """
      my $process = open2(my $events, my $requests, @ARGV);
      printf $requests "+%d 10.0.0.1:7000 10.0.0.2:%d %s\\n", $_, $_ + 1024, "x" x 100 for 1..1000;
      $requests->flush;
      for (1..1000) { <$events> =~ /"event": "path"/ or die }
      close $requests;
      waitpid $process, 0;
      exit $? >> 8;
      """
    // The lines do not fit into a pipe (64 KiB), nor do the events.
    let program = try lab.namespace.spawn(
      ["perl", "-MIPC::Open2", "-MIO::Handle", "-e", script, Programs.connctl, "guard", "--stdin"],
      environment: ["CONND_SOCKET": lab.socket])
    try program.expectSuccess()
  }
}
