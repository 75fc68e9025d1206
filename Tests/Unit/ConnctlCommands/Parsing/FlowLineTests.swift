import Connectivity
import Testing

@testable import ConnctlCommands

@Suite("Lines of connctl guard --stdin")
struct FlowLineTests {
  private func connection(
    _ remote: String, _ local: String, _ name: String? = nil
  ) throws -> GuardedConnection {
    GuardedConnection(
      remote: try AddressEndpoint(remote), local: try AddressEndpoint(local), name: name)
  }

  @Test("a line adds a connection with its ends and its name")
  func additions() throws {
    let ends = ("203.0.113.9:443", "192.0.2.7:4711")
    for (line, name) in [
      ("+1 203.0.113.9:443 192.0.2.7:4711", nil), ("+1 203.0.113.9:443 192.0.2.7:4711 \r", nil),
      ("+1 203.0.113.9:443 192.0.2.7:4711 name", "name"),
      ("+1  203.0.113.9:443\t192.0.2.7:4711   the database \r", "the database"),
      ("+01 203.0.113.9:443 [::ffff:192.0.2.7]:4711 \"ü\"", "\"ü\""),
    ] {
      #expect(try FlowLine(line) == .add(id: 1, self.connection(ends.0, ends.1, name)), "\(line)")
    }
    let line = try FlowLine("+18446744073709551615 [2001:db8::9]:443 [fe80::1%eth0]:4711")
    guard case .add(.max, let connection) = line else {
      Issue.record("\(line)")
      return
    }
    #expect(connection.remote.address == IPAddress("2001:db8::9"))
    #expect(connection.local.link == "eth0" && connection.local.port == 4711)
  }

  @Test("a line removes a connection")
  func removals() throws {
    for line in ["-7", "-7 ", "-7\r", "  -7"] { #expect(try FlowLine(line) == .remove(id: 7)) }
  }

  @Test(
    "a malformed line is an error that names the problem, with the id if the line has one",
    arguments: [
      ("", nil, "expected +<id> <remote> <local> [<name>], or -<id>"),
      ("1 203.0.113.9:443 192.0.2.7:4711", nil, "expected +<id>"),
      ("+ 203.0.113.9:443 192.0.2.7:4711", nil, "the id “”: it must be a whole number"),
      ("+x 203.0.113.9:443 192.0.2.7:4711", nil, "the id “x”: it must be a whole number"),
      ("--1", nil, "the id “-1”: it must not be negative"),
      ("-18446744073709551616", nil, "it must be at most 18446744073709551615"),
      ("-1 203.0.113.9:443", 1, "nothing may follow -<id>"),
      ("+1", 1, "a remote and a local end must follow"),
      ("+1 203.0.113.9:443", 1, "a remote and a local end must follow"),
      ("+1 example.com:443 192.0.2.7:4711", 1, "“example.com” is not an address"),
      ("+1 203.0.113.9:443 192.0.2.7", 1, "“192.0.2.7” has no port"),
      ("+1 203.0.113.9 192.0.2.7:4711", 1, "“203.0.113.9” has no port"),
      ("+1 203.0.113.9:70000 192.0.2.7:4711", 1, "“70000” is not a port"),
      ("+1 [::1:443 192.0.2.7:4711", 1, "is not an address"),
      ("+1 203.0.113.9:443 [2001:db8::7]:4711", 1, "of different families"),
      ("+1 [fe80::9%4294967295]:443 [fe80::7]:4711", 1, "there is no link with index 4294967295"),
    ] as [(String, UInt64?, String)])
  func errors(line: String, id: UInt64?, words: String) {
    let error = #expect(throws: FlowLineError.self) { try FlowLine(line) }
    #expect(error?.id == id)
    #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
  }

  @Test("input in any parts has the same lines; one that is too long is skipped")
  func parts() {
    let input = Array("a\n\nbcde\nbcdef\nxyzxyzxyz\nlast\nopen".utf8)
    for size in 1...input.count {
      var splitter = LineSplitter(maxBytes: 4)
      var lines: [String?] = []
      for start in stride(from: 0, to: input.count, by: size) {
        lines += splitter.lines(in: input[start..<min(start + size, input.count)])
      }
      #expect(lines == ["a", "", "bcde", nil, nil, "last"])
    }
  }
}

@Suite("Flows of connctl guard --stdin")
struct CoprocessFlowsTests {
  private func line(_ id: UInt64, _ name: String) throws -> FlowLine {
    try FlowLine("+\(id) 203.0.113.9:443 192.0.2.7:4711 \(name)")
  }

  private func connection(_ name: String) throws -> GuardedConnection {
    guard case .add(_, let connection) = try self.line(1, name) else {
      throw FlowLineError(nil, "no connection")
    }
    return connection
  }

  @Test("the same id again replaces a connection, and events of the old one have no flow")
  func replaced() throws {
    var flows = CoprocessFlows()
    #expect(try flows.apply(self.line(7, "a")) == [.add(key: 1, self.connection("a"))])
    #expect(
      try flows.apply(self.line(7, "b")) == [.remove(key: 1), .add(key: 2, self.connection("b"))])
    #expect(flows[1] == nil)
    #expect(flows[2]?.id == 7 && flows[2]?.connection.name == "b")
    // An event of the old flow that was in transit.
    flows.end(1)
    #expect(try flows.apply(.remove(id: 7)) == [.remove(key: 2)])
    #expect(try flows.apply(.remove(id: 7)) == [])
  }

  @Test("an ended flow has no removal, and its id is free")
  func ended() throws {
    var flows = CoprocessFlows()
    _ = try flows.apply(self.line(7, "a"))
    flows.end(1)
    #expect(flows[1] == nil)
    #expect(try flows.apply(.remove(id: 7)) == [])
    #expect(try flows.apply(self.line(7, "b")) == [.add(key: 2, self.connection("b"))])
  }

  @Test("D4 more flows than the limit → an error with the id and the name, and the others go on")
  func limit() throws {
    var flows = CoprocessFlows(maxFlows: 2)
    for id in [1, 2] as [UInt64] { _ = try flows.apply(self.line(id, "a")) }
    let error = #expect(throws: FlowLineError.self) { try flows.apply(self.line(3, "c")) }
    #expect(error?.id == 3 && error?.name == "c")
    #expect(error?.message == "at most 2 connections are guarded")
    // A replacement needs no room.
    #expect(
      try flows.apply(self.line(2, "b")) == [.remove(key: 2), .add(key: 3, self.connection("b"))])
    #expect(try flows.apply(.remove(id: 1)) == [.remove(key: 1)])
    #expect(try flows.apply(self.line(3, "c")) == [.add(key: 4, self.connection("c"))])
  }
}
