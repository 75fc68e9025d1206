import Connectivity
import TestKit
import Testing

@testable import Netlink

@Suite(
  "Links that are listed in parts",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct LinkDumpTests {
  private struct Reading {
    var links: [Link] = []
    var parts = 0
    var restarts = 0
  }

  /// A namespace with 200 links beside the loopback device.
  private func makeDump() throws -> (namespace: NetworkNamespace, requester: Requester, LinkDump) {
    let namespace = try NetworkNamespace()
    try namespace.ipBatch((0..<100).map { "link add c\($0) type veth peer name d\($0)" })
    let requester = try namespace.perform { try Requester() }
    let dump = try namespace.perform { try LinkDump(on: KernelSockets().open(.linkDump)) }
    return (namespace, requester, dump)
  }

  private func read(_ dump: LinkDump, afterPart: (Int) throws -> Void = { _ in }) throws -> Reading
  {
    var reading = Reading()
    while true {
      reading.parts += 1
      switch try dump.next() {
      case .restarted: (reading.links, reading.restarts) = ([], reading.restarts + 1)
      case .links(let links, let isLast):
        reading.links += links
        if isLast { return reading }
      }
      try afterPart(reading.parts)
    }
  }

  @Test("D4 200 links are read in parts → together they are those of one reading")
  func parts() throws {
    let (_, requester, dump) = try self.makeDump()
    let reading = try self.read(dump) { _ in
      // Other questions are asked in between.
      let link = try requester.link(named: "c7")
      #expect(link?.name == "c7")
    }
    #expect(reading.parts > 4 && reading.restarts == 0)
    let names = try requester.links().map(\.name)
    #expect(reading.links.map(\.name) == names)
  }

  @Test("D4 a link appears while links are read in parts → the dump begins again and has it")
  func restarted() throws {
    let (namespace, requester, dump) = try self.makeDump()
    let reading = try self.read(dump) { part in
      if part == 2 { try namespace.ip("link add new type veth peer name far") }
    }
    #expect(reading.restarts == 1 && reading.links.contains { $0.name == "new" })
    let names = try requester.links().map(\.name)
    #expect(reading.links.map(\.name) == names)
  }

  @Test("D4 links change at each part → they are read in one go in the end")
  func busy() throws {
    let (namespace, requester, dump) = try self.makeDump()
    let reading = try self.read(dump) { part in
      try namespace.ip("link add n\(part) type veth peer name f\(part)")
    }
    #expect(reading.restarts == 4)
    let names = try requester.links().map(\.name)
    #expect(reading.links.map(\.name) == names)
  }
}
