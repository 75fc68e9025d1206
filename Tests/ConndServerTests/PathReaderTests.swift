import Connectivity
import Testing

@testable import ConndServer

@Suite("Path reader")
struct PathReaderTests {
  private let kernel = ModelKernel()
  private let reader = PathReader(
    destinations: Configuration().destinations, classifier: PathClassifier())
  private let remote: IPAddress
  private let before = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private let after = RouteAnswer.over(3, via: "198.51.100.1", from: "198.51.100.7")

  init() throws {
    self.remote = try IPAddress(spelt: "203.0.113.9")
    self.kernel.addLink(2, "eth0")
    self.kernel.addLink(3, "eth1")
    try self.kernel.lead("0.0.0.0", 0, self.before)
  }

  /// The address goes, and with it the route.
  private func move() throws {
    self.kernel.missing = [try IPAddress(spelt: "192.0.2.7")]
    try self.kernel.lead("0.0.0.0", 0, self.after)
  }

  @Test("I1 K3 an answer whose address has gone is asked for again")
  func addressGone() throws {
    self.kernel.happens(after: 1) { #expect(throws: Never.self) { try self.move() } }
    let facts = try self.reader.facts(about: Destination(self.remote), from: self.kernel)
    #expect(facts.answer == self.after)
    #expect(facts.links.map(\.link.name) == ["eth1"])
    #expect(facts.source?.address == IPAddress("198.51.100.7"))
  }

  @Test("K3 an answer whose address has gone, and all else with it, leads nowhere")
  func allGone() throws {
    self.kernel.missing = [try IPAddress(spelt: "192.0.2.7")]
    self.kernel.happens(after: 1) { self.kernel.routes = [] }
    let facts = try self.reader.facts(about: Destination(self.remote), from: self.kernel)
    #expect(facts.answer == .noRoute(.noRoute))
    #expect(facts.links.isEmpty)
  }

  @Test("I3 an answer whose address has gone is that of one destination only")
  func wayOfOne() throws {
    let other = try IPAddress(spelt: "203.0.113.10")
    try self.kernel.lead("203.0.113.10", 32, .noRoute(.prohibited))
    try self.move()
    let look = Look(self.reader, Gateways(), self.kernel)
    // All are asked for at once, and the address went afterwards.
    let way = try look.way(to: Destination(self.remote), self.before)
    #expect(way.shown.interface == "eth1")
    #expect(try look.way(to: Destination(other), self.before).shown.status == .unsatisfied)
    #expect(try look.way(to: Destination(self.remote), self.after) === way)
  }

  @Test("D6 the answer of a link that borrows its address is kept, for one question more")
  func unnumbered() throws {
    func questions() throws -> Int {
      let before = self.kernel.questions
      let facts = try self.reader.facts(about: Destination(self.remote), from: self.kernel)
      #expect(facts.answer == self.before)
      return self.kernel.questions - before
    }
    let numbered = try questions()
    self.kernel.missing = [try IPAddress(spelt: "192.0.2.7")]
    #expect(try questions() == numbered + 1)
  }

  @Test("T3 probes that all say something else are asked a second time, and no third")
  func disagreement() throws {
    let probes = self.reader.destinations.ipv4
    try #require(probes.count == 3)
    try self.kernel.lead("\(probes[1])", 32, self.after)
    try self.kernel.lead("\(probes[2])", 32, .noRoute(.prohibited))
    let (first, answers) = try self.reader.probe(.ipv4, from: self.kernel)
    #expect(first == 0 && answers == [self.before, self.after, .noRoute(.prohibited)])
    #expect(self.kernel.questions == 6)

    self.kernel.happens(after: 3) {
      #expect(throws: Never.self) { try self.kernel.lead("\(probes[0])", 32, self.after) }
    }
    let (settled, now) = try self.reader.probe(.ipv4, from: self.kernel)
    #expect(settled == 0 && now == [self.after, self.after])
  }
}
