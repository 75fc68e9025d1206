import Connectivity
import Testing

@testable import ConndServer
@testable import ConnectivityRules
@testable import Connectivity

@Suite("Networks")
final class NetworksTests {
  private let kernel = ModelKernel()
  private var interests = Interests()
  private var networks: Networks {
    get { self.interests.networks }
    set { self.interests.networks = newValue }
  }
  private let reader: PathReader
  private let gateway: IPAddress
  private let destination: Destination

  init() throws {
    self.reader = PathReader(
      destinations: Configuration().destinations, classifier: PathClassifier())
    self.gateway = try IPAddress(spelt: "192.0.2.1")
    self.destination = Destination(try IPAddress(spelt: "203.0.113.9"))
    self.kernel.addLink(2, "eth0")
    self.kernel.linkTable[2]?.link.carrierDownCount = 3
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    self.have(7)
  }

  private func router(_ last: UInt8, on link: UInt32 = 2) -> Neighbour {
    Neighbour(self.gateway, link: link, hardwareAddress: [2, 0, 0, 0, 0, last])
  }

  /// The gateway has this hardware address from now on, or the kernel knows none.
  private func have(_ last: UInt8?) {
    self.kernel.neighbours[self.gateway] = last.map { self.router($0) }
  }

  /// It has it, and that is told.
  private func tell(_ last: UInt8) {
    self.have(last)
    self.networks.note([.neighbour(self.router(last))])
  }

  /// A link goes and comes, and both is told.
  private func replug(_ index: UInt32 = 2) throws {
    for state in [LinkState.noCarrier, .up] {
      self.kernel.setState(of: index, state)
      self.networks.note([.link(try #require(self.kernel.linkTable[index]).link)])
    }
  }

  /// What is known of the network in a turn of its own.
  private func identity() throws -> NetworkIdentity {
    let view = KernelView(self.kernel, self.interests)
    defer { self.interests = view.interests }
    let (path, facts) = try self.reader.path(to: self.destination, view)
    return try view.interests.networks.identity(of: path, facts, view)
  }

  /// The same of a default path.
  private func defaultIdentity() throws -> NetworkIdentity {
    let view = KernelView(self.kernel, self.interests)
    defer { self.interests = view.interests }
    let (path, facts) = try self.reader.path(to: self.destination, view)
    return try view.interests.networks.identity(of: path, facts, isDefault: true, view)
  }

  /// What becomes of those who were on the network before.
  private func fate(since before: NetworkIdentity) throws -> String {
    let now = try self.identity().completed(by: before)
    return now.isOther(than: before) ? "other" : now.isFailover(after: before) ? "failover" : "same"
  }

  private func acceptFilter() throws -> [KernelEvent] {
    try self.networks.acceptFilter(KernelView(self.kernel))
  }

  // MARK: - Stages

  @Test("I4 another hardware address on a link that never went is a failover")
  func failover() throws {
    let before = try self.identity()
    #expect(before.gatewayHardwareAddress?.last == 7)
    self.tell(8)
    #expect(try self.fate(since: before) == "failover")
    self.tell(7)
    #expect(try self.fate(since: before) == "same")
  }

  @Test("I4 T2 a carrier that went between two readings is told by its count")
  func carrierCount() throws {
    let before = try self.identity()
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    self.have(8)
    #expect(try self.fate(since: before) == "other")
  }

  /// The kernel knows a router since so long ago.
  private func have(_ last: UInt8, confirmed age: Duration) {
    self.have(last)
    self.kernel.neighbours[self.gateway]?.confirmed = age
  }

  /// The carrier goes so fast that the kernel forgets nothing.
  private func bounce() {
    let count = self.kernel.linkTable[2]?.link.carrierDownCount ?? 0
    self.kernel.linkTable[2]?.link.carrierDownCount = count + 1
  }

  private func wait(_ duration: Duration) {
    self.networks.now = self.networks.now.advanced(by: duration)
  }

  @Test(
    "I4 the kernel still has the router of before the link went → another MAC is another network")
  func unconfirmed() throws {
    self.have(7, confirmed: .zero)
    let before = try self.identity()
    self.bounce()
    self.have(7, confirmed: .milliseconds(500))
    #expect(try self.fate(since: before) == "same")
    let meanwhile = try self.identity()
    #expect(meanwhile.gatewayHardwareAddress == nil)
    // That the kernel stops to believe in it says nothing else.
    self.wait(.seconds(45))
    self.networks.note([.neighbour(self.router(7))])
    self.have(7, confirmed: .seconds(46))
    #expect(try self.fate(since: before) == "same")
    self.wait(.seconds(3600))
    self.tell(8)
    #expect(try self.fate(since: before) == "other")
    #expect(try self.fate(since: meanwhile) == "same")
  }

  @Test("I4 the router was confirmed since the link went → another MAC is a failover")
  func confirmed() throws {
    let before = try self.identity()
    self.bounce()
    self.have(7, confirmed: .zero)
    _ = try self.identity()
    self.wait(.seconds(1))
    self.have(7, confirmed: .milliseconds(900))
    let since = try self.identity()
    #expect(since.gatewayHardwareAddress?.last == 7 && since.stage > before.stage)
    self.tell(8)
    #expect(try self.fate(since: since) == "failover")
  }

  @Test("I4 the kernel says nothing of the router for a minute → traffic has confirmed it")
  func silentlyConfirmed() throws {
    let before = try self.identity()
    self.bounce()
    self.have(7, confirmed: .seconds(1))
    _ = try self.identity()
    self.wait(.seconds(61))
    self.tell(8)
    #expect(try self.fate(since: before) == "same")
    let after = try self.identity()
    #expect(after.firstStage == 0 && after.gatewayHardwareAddress?.last == 8)
  }

  @Test("I4 D7 the filter passes a confirmation of the same router, and is set once for that")
  func awaited() throws {
    let before = try self.identity()
    #expect(try self.acceptFilter() == [])
    self.bounce()
    self.have(7, confirmed: .seconds(1))
    _ = try self.identity()
    #expect(self.networks.isNew && self.networks.gateways.first?.hardwareAddress == nil)
    #expect(try self.acceptFilter() == [] && !self.networks.isNew)
    _ = try self.identity()
    #expect(!self.networks.isNew)
    self.wait(.seconds(5))
    self.have(7, confirmed: .zero)
    self.networks.note([.neighbour(try #require(self.kernel.neighbours[self.gateway]))])
    #expect(try self.fate(since: before) == "same")
    #expect(try self.identity().gatewayHardwareAddress?.last == 7)
    #expect(self.networks.gateways.first?.hardwareAddress?.last == 7)
  }

  @Test("I4 T2 one of two entries of the address is removed → no stage begins")
  func oneOfTwoEntries() throws {
    self.kernel.addressTable.append(
      Address(try IPAddress(spelt: "192.0.2.7"), prefixLength: 32, link: 2))
    let before = try self.defaultIdentity()
    let address = try IPAddress(spelt: "192.0.2.7")
    func remove(_ length: Int) {
      self.kernel.addressTable.removeAll { $0.prefixLength == length }
      self.networks.note([.addressRemoved(Address(address, prefixLength: length, link: 2))])
    }
    remove(32)
    #expect(try self.defaultIdentity().stage == before.stage)
    remove(24)
    #expect(try self.defaultIdentity().stage > before.stage)
  }

  @Test("I4 a link that went, and has the same router as before, has the same network")
  func linkMessage() throws {
    let before = try self.identity()
    try self.replug()
    #expect(try self.fate(since: before) == "same")
    try self.replug()
    self.have(8)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a message that is older than what was read is no other stage")
  func oldMessage() throws {
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    let before = try self.identity()
    var old = try #require(self.kernel.linkTable[2]).link
    (old.carrierDownCount, old.carrier, old.flags) = (3, false, [.up])
    self.networks.note([.link(old)])
    self.tell(8)
    #expect(try self.fate(since: before) == "failover")
  }

  @Test("I4 an address that goes begins another stage, of its family", arguments: [true, false])
  func addressRemoved(isOfFamily: Bool) throws {
    let before = try self.identity()
    let address = try IPAddress(spelt: isOfFamily ? "192.0.2.7" : "2001:db8::7")
    self.networks.note([.addressRemoved(Address(address, prefixLength: 24, link: 2))])
    self.tell(8)
    #expect(try self.fate(since: before) == (isOfFamily ? "other" : "failover"))
  }

  @Test(
    "I4 I7 after lost messages the router is asked for again, and the count says whether it went")
  func overrun() throws {
    let before = try self.identity()
    self.have(8)
    #expect(try self.fate(since: before) == "same", "nobody has said anything")
    self.networks.note([.overrun])
    #expect(try self.fate(since: before) == "failover")
    let after = try self.identity()
    self.have(9)
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    self.networks.note([.overrun])
    #expect(try self.fate(since: after) == "other")
  }

  @Test("I4 as long as nobody knows the router there is nothing to compare, and then all since")
  func unknown() throws {
    let before = try self.identity()
    try self.replug()
    self.have(nil)
    let meanwhile = try self.identity()
    #expect(meanwhile.gatewayHardwareAddress == nil)
    #expect(try self.fate(since: before) == "same")
    // It goes once more before it is known.
    try self.replug()
    self.tell(8)
    #expect(try self.fate(since: before) == "other")
    #expect(try self.fate(since: meanwhile) == "same", "whose network it was on nobody knows")
    let after = try self.identity()
    #expect(try self.fate(since: after) == "same")
  }

  @Test("I4 who began before the router was known is on another network when the link went")
  func neverKnown() throws {
    self.have(nil)
    let before = try self.identity()
    self.tell(7)
    #expect(try self.fate(since: before) == "same")
    try self.replug()
    self.tell(8)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a router that is told of before the link that went is compared with the one of before")
  func messageBeforeLinks() throws {
    let before = try self.identity()
    self.networks.note([.neighbour(self.router(8))])
    self.have(8)
    // The message of the link is still to come; what is read of it is ahead.
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    #expect(try self.fate(since: before) == "other")
    let after = try self.identity()
    self.networks.note([.link(try #require(self.kernel.linkTable[2]).link)])
    #expect(try self.fate(since: after) == "same")
  }

  @Test("I4 K6 of a gateway behind a bridge the port's carrier counts")
  func lowerPort() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2])
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "192.0.2.8"))
    self.kernel.neighbours[self.gateway] = self.router(7, on: 4)
    let before = try self.identity()
    try self.replug()
    self.kernel.neighbours[self.gateway] = self.router(8, on: 4)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 K6 a port that is gone, and not told of yet, went as well")
  func remadePort() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2])
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "192.0.2.8"))
    self.kernel.neighbours[self.gateway] = self.router(7, on: 4)
    let before = try self.identity()
    self.kernel.linkTable[2] = nil
    self.kernel.addLink(5, "eth0")
    self.kernel.addStack(4, "br0", kind: "bridge", over: [5])
    self.kernel.neighbours[self.gateway] = self.router(8, on: 4)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a link that nobody's gateway is behind begins no stage")
  func otherLink() throws {
    let before = try self.identity()
    self.kernel.addLink(3, "eth1")
    try self.replug(3)
    self.tell(8)
    #expect(try self.fate(since: before) == "failover")
  }

  @Test(
    "I4 an address of the other family that goes says nothing of a link without hardware addresses")
  func otherFamily() throws {
    self.kernel.linkTable[2]?.link.flags.insert(.pointToPoint)
    let before = try self.identity()
    let other = try IPAddress(spelt: "2001:db8::7")
    self.networks.note([.addressRemoved(Address(other, prefixLength: 64, link: 2))])
    #expect(try self.identity() == before)
    let own = try IPAddress(spelt: "192.0.2.7")
    self.networks.note([.addressRemoved(Address(own, prefixLength: 24, link: 2))])
    #expect(try self.identity() != before)
  }

  @Test("I4 a modem has no hardware addresses: its gateway and prefix tell, where the link went")
  func modem() throws {
    self.kernel.linkTable[2]?.link.hardwareAddress = []
    let before = try self.identity()
    #expect(!before.hasHardwareAddresses && !self.networks.isNew)
    // That the link went is no other network, as long as it leads to the same gateway from the same prefix.
    try self.replug()
    #expect(try self.fate(since: before) == "same")
    let after = try self.identity()
    let redialled = RouteAnswer.over(2, via: "192.0.2.2", from: "192.0.2.7")
    try self.kernel.lead("0.0.0.0", 0, redialled)
    #expect(try self.fate(since: after) == "same", "another route, on a link that never went")
    #expect(try self.fate(since: before) == "other")
    try self.replug()
    #expect(try self.fate(since: after) == "other")
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    #expect(try self.fate(since: after) == "same")
  }

  @Test("I4 a modem that re-dials is no other network to those on another modem")
  func otherModem() throws {
    self.kernel.linkTable[2]?.link.hardwareAddress = []
    let before = try self.identity()
    self.kernel.addLink(3, "wwan1")
    self.kernel.linkTable[3]?.link.hardwareAddress = []
    try self.kernel.lead("203.0.113.0", 24, .over(3, via: "192.0.2.9", from: "192.0.2.8"))
    let other = try self.identity()
    try self.replug(3)
    try self.kernel.cut("203.0.113.0", 24)
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.2", from: "192.0.2.7"))
    #expect(try self.fate(since: before) == "same")
    try self.kernel.lead("203.0.113.0", 24, .over(3, via: "192.0.2.2", from: "192.0.2.8"))
    #expect(try self.fate(since: other) == "other")
  }

  // MARK: - The filter

  @Test(
    "I4 D7 the filter goes by what the kernel told, and those on the network by what is certain")
  func heard() throws {
    func heard() -> UInt8? { self.networks.gateways.first?.hardwareAddress?.last }
    #expect(try self.identity().gatewayHardwareAddress?.last == 7)
    #expect(self.networks.isNew && heard() == 7)
    #expect(try self.acceptFilter() == [])
    #expect(!self.networks.isNew)

    // Wi-Fi forgets its neighbours when it roams.
    try self.replug()
    self.have(nil)
    #expect(try self.identity().gatewayHardwareAddress == nil)
    #expect(!self.networks.isNew && heard() == 7, "it would be told of another")
    // And finds the same.
    self.have(7)
    #expect(try self.identity().gatewayHardwareAddress?.last == 7)
    #expect(!self.networks.isNew)

    self.tell(8)
    #expect(self.networks.isNew && heard() == 8)
    #expect(try self.identity().gatewayHardwareAddress?.last == 8)
  }

  @Test("I4 what the filter held back before it knew the gateway is made up for")
  func heldBack() throws {
    _ = try self.identity()
    self.have(8)
    #expect(
      try self.acceptFilter() == [.neighbour(self.router(8))])
    self.kernel.neighbours[self.gateway] = Neighbour(self.gateway, link: 2, isFailed: true)
    #expect(try self.acceptFilter().count == 1)
  }

  @Test("I4 without a carrier nothing is asked of the gateway, and all is once it is back")
  func withoutCarrier() throws {
    let before = try self.identity()
    self.kernel.setState(of: 2, .noCarrier)
    let asked = self.kernel.asked.count
    _ = try self.identity()
    #expect(!self.kernel.asked[asked...].contains { $0.hasPrefix("neighbour") })
    self.have(8)
    self.kernel.setState(of: 2, .up)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a gateway that is known is not asked for again as long as nothing is told")
  func askedOnce() throws {
    _ = try self.identity()
    _ = try self.identity()
    #expect(self.kernel.asked.count { $0.hasPrefix("neighbour") } == 1)
  }

  // MARK: - Bounds

  @Test("D4 nothing grows without bound, whatever is told and used")
  func bounded() throws {
    for number: UInt32 in 1...1000 {
      let gateway = "10.0.\(number / 256).\(number % 256)"
      try self.kernel.lead("203.0.113.9", 32, .over(2, via: gateway, from: "192.0.2.7"))
      _ = try self.identity()
      let hardwareAddress = [2, 1, 0, 0, UInt8(number / 256), UInt8(number % 256)]
      self.kernel.learnt = [hardwareAddress: 2]
      _ = try self.networks.place(of: hardwareAddress, on: 4, KernelView(self.kernel))
      // Containers', of which it is not always told that they go.
      let link = Link(
        index: 1000 + number, name: "veth\(number)", flags: [.up, .lowerUp], carrier: true)
      self.networks.note([.link(link), .bridgeEntry(BridgeEntry([1], port: number))])
    }
    #expect(self.networks.gateways.count <= 64 && self.networks.bridged.count <= 64)
    for child in Mirror(reflecting: self.networks).children {
      let mirror = Mirror(reflecting: child.value)
      if mirror.displayStyle == .dictionary {
        #expect(mirror.children.count <= 64, "\(child.label ?? "")")
      }
    }
  }

  @Test("D4 of a link that has gone nothing is kept")
  func forgotten() throws {
    _ = try self.identity()
    self.kernel.learnt = [[9]: 2]
    _ = try self.networks.place(of: [9], on: 4, KernelView(self.kernel))
    _ = try self.acceptFilter()
    self.networks.note([.linkRemoved(try #require(self.kernel.linkTable[2]).link)])
    #expect(self.networks.gateways == [] && self.networks.isNew)
    // What was behind the port is heard of where the bridge learns it anew.
    #expect(self.networks.bridged == [[9]])
    self.networks.note([.linkRemoved(Link(index: 4, name: "br0"))])
    #expect(self.networks.bridged == [])
  }
}

@Suite("Interests")
final class InterestsTests {
  private let kernel = ModelKernel()
  private var interests = Interests()

  private func acceptFilter() throws -> [KernelEvent]? {
    try self.interests.acceptFilter(KernelView(self.kernel))
  }

  private func path(over tunnel: UInt32, to end: UInt32) throws -> PathFacts {
    let address = "10.0.\(end / 256).\(end % 256)"
    self.kernel.addTunnel(tunnel, "gre\(tunnel)", to: address)
    var facts = PathFacts(
      destination: try IPAddress(spelt: "203.0.113.9"), answer: .noRoute(.noRoute),
      links: [try #require(self.kernel.linkTable[tunnel])])
    facts.tunnelEnds = [.init(link: tunnel, address: try IPAddress(spelt: address))]
    return facts
  }

  @Test(
    "K6 D7 with many tunnels in use nothing is new when they are used again",
    arguments: [(65, 65), (1100, 1024)] as [(UInt32, Int)])
  func manyTunnels(tunnels: UInt32, followed: Int) throws {
    let paths = try (1...tunnels).map { try self.path(over: $0, to: $0) }
    for path in paths { self.interests.use(path) }
    #expect(self.interests.isWider)
    #expect(try self.acceptFilter() == [])
    for path in paths { self.interests.use(path) }
    #expect(!self.interests.isWider)
    #expect(self.interests.tunnelEnds.count == followed)
  }

  @Test("D6 a tunnel's end is forgotten with the last link that leads there")
  func tunnelRemoved() throws {
    let (first, second) = (try self.path(over: 5, to: 1), try self.path(over: 6, to: 1))
    self.interests.use(first)
    self.interests.use(second)
    self.interests.note([.linkRemoved(first.links[0].link)])
    #expect(self.interests.tunnelEnds == [try IPAddress(spelt: "10.0.0.1")])
    self.interests.note([.linkRemoved(second.links[0].link)])
    #expect(self.interests.tunnelEnds.isEmpty)
  }
}
