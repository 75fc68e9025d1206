import Connectivity
import Testing

@testable import ConndServer
@testable import ConnectivityRules
@testable import Connectivity

@Suite("Networks")
final class GatewayTableTests {
  let kernel = ModelKernel()
  private var subscriptions = KernelSubscriptions()
  var networks: GatewayTable {
    get { self.subscriptions.gateways }
    set { self.subscriptions.gateways = newValue }
  }
  private let reader: PathReader
  let gateway: IPAddress
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

  func router(_ last: UInt8, on link: UInt32 = 2) -> Neighbour {
    Neighbour(self.gateway, link: link, hardwareAddress: [2, 0, 0, 0, 0, last])
  }

  /// Gives the gateway a MAC address, or none that the kernel knows.
  func have(_ last: UInt8?) {
    self.kernel.neighbours[self.gateway] = last.map { self.router($0) }
  }

  /// Gives the gateway a MAC address, and reports it.
  func tell(_ last: UInt8) {
    self.have(last)
    self.networks.note([.neighbour(self.router(last))])
  }

  /// Takes a link down and up again, and reports both.
  func replug(_ index: UInt32 = 2) throws {
    for state in [LinkState.noCarrier, .up] {
      self.kernel.setState(of: index, state)
      self.networks.note([.link(try #require(self.kernel.linkTable[index]).link)])
    }
  }

  /// Reads the kernel in a turn of its own.
  private func read<Answer>(_ reading: (KernelView) throws -> Answer) throws -> Answer {
    let view = KernelView(self.kernel, ReadingContext(subscriptions: self.subscriptions))
    defer { self.subscriptions = view.subscriptions }
    return try reading(view)
  }

  /// The identity of the network, read in a turn of its own.
  func identity() throws -> NetworkIdentity {
    try self.read { view in
      let (path, facts) = try self.reader.path(to: self.destination, view)
      return try view.identity(of: path, facts)
    }
  }

  /// The identity of the default path's network, read in a turn of its own.
  private func defaultIdentity() throws -> NetworkIdentity {
    try self.read { view in
      let (path, facts) = try self.reader.path(to: self.destination, view)
      return try view.identity(of: path, facts, isDefault: true)
    }
  }

  /// The verdict for flows that were on the network before.
  func fate(since before: NetworkIdentity) throws -> String {
    let now = try self.identity().completed(by: before)
    return now.isOther(than: before) ? "other" : now.isFailover(after: before) ? "failover" : "same"
  }

  func acceptFilter() throws -> [KernelEvent] {
    try self.read { try $0.acceptFilter() ?? [] }
  }

  // MARK: - Epochs

  @Test("I4 another MAC address on a link that stayed up is a failover")
  func failover() throws {
    let before = try self.identity()
    #expect(before.gatewayHardwareAddress?.last == 7)
    self.tell(8)
    #expect(try self.fate(since: before) == "failover")
    self.tell(7)
    #expect(try self.fate(since: before) == "same")
  }

  @Test("I4 T2 a carrier loss between two readings is noticed by the carrier counter")
  func carrierCount() throws {
    let before = try self.identity()
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    self.have(8)
    #expect(try self.fate(since: before) == "other")
  }

  /// The kernel has known a router, confirmed this long ago.
  func have(_ last: UInt8, confirmed age: Duration) {
    self.have(last)
    self.kernel.neighbours[self.gateway]?.confirmed = age
  }

  /// Loses the carrier so briefly that the kernel forgets nothing.
  private func bounce() {
    let count = self.kernel.linkTable[2]?.link.carrierDownCount ?? 0
    self.kernel.linkTable[2]?.link.carrierDownCount = count + 1
  }

  private func wait(_ duration: Duration) {
    self.networks.now = self.networks.now.advanced(by: duration)
  }

  @Test(
    "I4 the kernel still has the router from before the link loss → another MAC is another network")
  func unconfirmed() throws {
    self.have(7, confirmed: .zero)
    let before = try self.identity()
    self.bounce()
    self.have(7, confirmed: .milliseconds(500))
    #expect(try self.fate(since: before) == "same")
    let meanwhile = try self.identity()
    #expect(meanwhile.gatewayHardwareAddress == nil)
    // The kernel's doubts about the entry change nothing else.
    self.wait(.seconds(45))
    self.networks.note([.neighbour(self.router(7))])
    self.have(7, confirmed: .seconds(46))
    #expect(try self.fate(since: before) == "same")
    self.wait(.seconds(3600))
    self.tell(8)
    #expect(try self.fate(since: before) == "other")
    #expect(try self.fate(since: meanwhile) == "same")
  }

  @Test("I4 the router was confirmed after the link loss → another MAC is a failover")
  func confirmed() throws {
    let before = try self.identity()
    self.bounce()
    self.have(7, confirmed: .zero)
    _ = try self.identity()
    self.wait(.seconds(1))
    self.have(7, confirmed: .milliseconds(900))
    let since = try self.identity()
    #expect(since.gatewayHardwareAddress?.last == 7 && since.epoch > before.epoch)
    self.tell(8)
    #expect(try self.fate(since: since) == "failover")
  }

  @Test("I4 the kernel reports nothing about the router for a minute → traffic has confirmed it")
  func silentlyConfirmed() throws {
    let before = try self.identity()
    self.bounce()
    self.have(7, confirmed: .seconds(1))
    _ = try self.identity()
    self.wait(.seconds(61))
    self.tell(8)
    #expect(try self.fate(since: before) == "same")
    let after = try self.identity()
    #expect(after.oldestValidEpoch == 0 && after.gatewayHardwareAddress?.last == 8)
  }

  @Test("I4 D7 the filter passes the confirmation of the same router, without being replaced again")
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

  @Test("I4 T2 one of two entries of the address is removed → no epoch begins")
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
    #expect(try self.defaultIdentity().epoch == before.epoch)
    remove(24)
    #expect(try self.defaultIdentity().epoch > before.epoch)
  }

  @Test("I4 link lost and back with the same router → same network")
  func linkMessage() throws {
    let before = try self.identity()
    try self.replug()
    #expect(try self.fate(since: before) == "same")
    try self.replug()
    self.have(8)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a message older than the last reading begins no epoch")
  func oldMessage() throws {
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    let before = try self.identity()
    var old = try #require(self.kernel.linkTable[2]).link
    (old.carrierDownCount, old.carrier, old.flags) = (3, false, [.up])
    self.networks.note([.link(old)])
    self.tell(8)
    #expect(try self.fate(since: before) == "failover")
  }

  @Test("I4 an address is removed → an epoch begins for its family only", arguments: [true, false])
  func addressRemoved(isOfFamily: Bool) throws {
    let before = try self.identity()
    let address = try IPAddress(spelt: isOfFamily ? "192.0.2.7" : "2001:db8::7")
    self.networks.note([.addressRemoved(Address(address, prefixLength: 24, link: 2))])
    self.tell(8)
    #expect(try self.fate(since: before) == (isOfFamily ? "other" : "failover"))
  }

  @Test(
    "I4 I7 after lost messages the router is read again, and the carrier counter says whether the link was lost"
  )
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

  @Test(
    "I4 the router is unknown for a while → no verdict until it is known, then one for the whole time"
  )
  func unknown() throws {
    let before = try self.identity()
    try self.replug()
    self.have(nil)
    let meanwhile = try self.identity()
    #expect(meanwhile.gatewayHardwareAddress == nil)
    #expect(try self.fate(since: before) == "same")
    // The link is lost once more before the router is known.
    try self.replug()
    self.tell(8)
    #expect(try self.fate(since: before) == "other")
    #expect(try self.fate(since: meanwhile) == "same", "whose network it was on nobody knows")
    let after = try self.identity()
    #expect(try self.fate(since: after) == "same")
  }

  @Test("I4 a flow began before the router was known, then the link was lost → network changed")
  func neverKnown() throws {
    self.have(nil)
    let before = try self.identity()
    self.tell(7)
    #expect(try self.fate(since: before) == "same")
    try self.replug()
    self.tell(8)
    #expect(try self.fate(since: before) == "other")
  }

  @Test(
    "I4 the router's message arrives before the link's → the router is compared with the former one"
  )
  func messageBeforeLinks() throws {
    let before = try self.identity()
    self.networks.note([.neighbour(self.router(8))])
    self.have(8)
    // The link's message is still to come; the reading is ahead of it.
    self.kernel.linkTable[2]?.link.carrierDownCount = 4
    #expect(try self.fate(since: before) == "other")
    let after = try self.identity()
    self.networks.note([.link(try #require(self.kernel.linkTable[2]).link)])
    #expect(try self.fate(since: after) == "same")
  }

  // MARK: - Bounds

  @Test("D4 nothing grows without bound, whatever messages arrive")
  func bounded() throws {
    for number: UInt32 in 1...1000 {
      let gateway = "10.0.\(number / 256).\(number % 256)"
      try self.kernel.lead("203.0.113.9", 32, .over(2, via: gateway, from: "192.0.2.7"))
      _ = try self.identity()
      let hardwareAddress = [2, 1, 0, 0, UInt8(number / 256), UInt8(number % 256)]
      self.kernel.learnt = [hardwareAddress: 2]
      _ = try self.read { try $0.place(of: hardwareAddress, on: 4) }
      // Links of containers, whose removal is not always reported.
      let link = Link(
        index: 1000 + number, name: "veth\(number)", flags: [.up, .lowerUp], carrier: true)
      self.subscriptions.note([.link(link), .bridgeEntry(BridgeEntry([1], port: number))])
    }
    let ports = self.subscriptions.bridgePorts
    #expect(self.networks.gateways.count <= 64 && ports.hardwareAddresses.count <= 64)
    let children = [
      Mirror(reflecting: self.networks).children, Mirror(reflecting: ports).children,
    ]
    for child in children.joined() {
      let mirror = Mirror(reflecting: child.value)
      if mirror.displayStyle == .dictionary {
        #expect(mirror.children.count <= 64, "\(child.label ?? "")")
      }
    }
  }

  @Test("D4 a link is gone → nothing about it is kept")
  func forgotten() throws {
    _ = try self.identity()
    self.kernel.learnt = [[9]: 2]
    _ = try self.read { try $0.place(of: [9], on: 4) }
    _ = try self.acceptFilter()
    self.subscriptions.note([.linkRemoved(try #require(self.kernel.linkTable[2]).link)])
    #expect(self.networks.gateways == [] && self.networks.isNew)
    // Hosts behind the port are reported when the bridge learns them again.
    #expect(self.subscriptions.bridgePorts.hardwareAddresses == [[9]])
    self.subscriptions.note([.linkRemoved(Link(index: 4, name: "br0"))])
    #expect(self.subscriptions.bridgePorts.hardwareAddresses == [])
  }
}
