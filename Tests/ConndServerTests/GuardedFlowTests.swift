import Connectivity
import ConnectivityRules
import Netlink
import Testing

@testable import ConndServer

@Suite("Guarded flows")
struct GuardedFlowTests {
  // MARK: - Tunnels that lead nowhere

  /// What is below gre1, which nothing leads into yet, has no carrier.
  private func loopWithDeadTunnel() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(3, "eth1", hasCarrier: false)
      kernel.addTunnel(5, "gre1", to: "198.51.100.1")
      try kernel.lead("198.51.100.1", 32, .over(3, from: "198.51.100.7"))
    }
  }

  @Test("I3 I10 a tunnel that leads nowhere takes no flow over, and is better when it works")
  func deadTunnel() throws {
    var loop = try self.loopWithDeadTunnel()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == ["1 advise interfaceLost"])
    // One that has just been made is evidence itself (I0): it is not refuted, and has the route's grace as others have.
    #expect(
      try loop.guardFlow(2, local: "192.0.2.7") == ["2 advise interfaceLost late gre1"])
    loop.kernel.addLink(3, "eth1")
    #expect(loop.tell().sorted() == ["1 destroy betterPath", "2 path gre1"])
  }

  @Test(
    "I10 a tunnel that leads nowhere for longer than a route may be gone ends those it captures")
  func deadTunnelForLong() throws {
    var loop = try self.loopWithDeadTunnel()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.turn(after: .milliseconds(999)) == [])
    #expect(loop.turn(after: .milliseconds(1)) == ["1 destroy interfaceLost"])
  }

  /// Flow 1 is inside gre1, which is above eth1.
  private func loopWithFlowInTunnel() throws -> TestLoop {
    var loop = try self.loopWithDeadTunnel()
    loop.kernel.addLink(3, "eth1")
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(try loop.guardFlow(1) == ["1 path gre1"])
    return loop
  }

  @Test("I5 a flow inside a tunnel survives that what is below it moves")
  func insideTunnel() throws {
    var loop = try self.loopWithFlowInTunnel()
    // At once, without a moment between.
    try loop.kernel.lead("198.51.100.1", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    #expect(loop.tell() == ["1 path gre1"])
    loop.kernel.addLink(3, "eth1", hasCarrier: false)
    #expect(loop.tell() == [])
  }

  @Test(
    "I5 I10 what fails below a tunnel is a missing route to those inside: back or gone round in time it ends nothing",
    arguments: ["back", "round", "gone"])
  func belowTunnel(outcome: String) throws {
    var loop = try self.loopWithFlowInTunnel()
    loop.kernel.addLink(3, "eth1", hasCarrier: false)
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.turn(after: .milliseconds(999)) == [])
    switch outcome {
    case "back": loop.kernel.addLink(3, "eth1")
    case "round":
      try loop.kernel.lead("198.51.100.1", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    default:
      #expect(loop.turn(after: .milliseconds(1)) == ["1 destroy interfaceLost"])
      return
    }
    #expect(loop.tell() == ["1 path gre1"])
    #expect(loop.turn(after: .seconds(2)) == [])
  }

  @Test("I3 I10 a tunnel that leads nowhere does not take the default path over")
  func deadDefaultTunnel() throws {
    var loop = try self.loopWithDeadTunnel()
    try loop.kernel.lead("0.0.0.0", 0, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == [])
    #expect(loop.loop.engine.snapshot.status.category == Category.none)
    #expect(loop.invalidations == ["advise interfaceLost", "advise categoryChanged"])
    loop.kernel.addLink(3, "eth1")
    #expect(loop.tell() == [])
    #expect(
      loop.invalidations.dropFirst(2) == ["destroy betterPath", "destroy categoryChanged"])
  }

  // MARK: - Routers

  /// 192.0.2.1, with a hardware address that ends in this.
  private func router(_ last: UInt8) throws -> Neighbour {
    Neighbour(
      try IPAddress(spelt: "192.0.2.1"), link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
  }

  /// The kernel has something more to tell, and it is so by then.
  private func tell(_ events: [KernelEvent], _ kernel: ModelKernel) {
    kernel.untold.append {
      for case .neighbour(let neighbour) in events {
        kernel.neighbours[neighbour.address] = neighbour
      }
      return events
    }
  }

  /// The cable is moved: the carrier goes, and with it what was known of the neighbours.
  private func replug(_ kernel: ModelKernel) {
    for state in [LinkState.noCarrier, .up] {
      kernel.untold.append {
        kernel.setState(of: 2, state)
        kernel.neighbours = [:]
        return kernel.linkTable[2].map { [.link($0.link)] } ?? []
      }
    }
  }

  @Test(
    "I4 that a router takes another's address on a link that never went is advised to those behind it, and ends nothing"
  )
  func failover() throws {
    let gateway = try IPAddress(spelt: "192.0.2.1")
    var loop = try TestLoop.started { $0.neighbours[gateway] = try self.router(7) }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    // What the kernel forgets meanwhile is not another.
    loop.kernel.neighbours = [:]
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(try loop.kernel.watched.gateways == [self.router(7)])
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    #expect(loop.turn().sorted() == ["1 advise networkChanged", "2 advise networkChanged"])
    #expect(loop.invalidations == ["advise networkChanged"])
    #expect(loop.turn() == [])
    // The next one is told, too.
    self.tell([.neighbour(try self.router(9))], loop.kernel)
    #expect(loop.turn().sorted() == ["1 advise networkChanged", "2 advise networkChanged"])
    #expect(loop.invalidations == ["advise networkChanged", "advise networkChanged"])
  }

  @Test("I4 the router is found and replaced before anybody looks", arguments: [false, true])
  func routerReplacedAtOnce(isReplugged: Bool) throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.tell([.neighbour(try self.router(7))], loop.kernel)
    if isReplugged { self.replug(loop.kernel) }
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    // Which one it was made by is not known, but that it was another where the link went.
    #expect(loop.turn() == (isReplugged ? ["1 destroy networkChanged"] : []))
    // To all it is the link that was lost.
    #expect(loop.invalidations.first == (isReplugged ? "destroy interfaceLost" : nil))
  }

  @Test("I4 who begins when the router was replaced, is not on the network of before")
  func routerReplacedBefore() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.tell([.neighbour(try self.router(7))], loop.kernel)
    self.replug(loop.kernel)
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    // Requests are taken when what was told is read, and before anybody is looked at.
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(loop.turn() == ["1 destroy networkChanged"])
  }

  @Test("I4 another router that is replaced is not the flow's")
  func otherRouterReplaced() throws {
    let other = try IPAddress(spelt: "192.0.2.2")
    var loop = try TestLoop.started { kernel in
      try kernel.lead("203.0.113.0", 24, .over(2, via: "192.0.2.2", from: "192.0.2.7"))
      kernel.neighbours[try self.router(7).address] = try self.router(7)
    }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.replug(loop.kernel)
    // The default gateway's address moves to the router that the flow has had all along.
    let own = Neighbour(other, link: 2, hardwareAddress: [2, 0, 0, 0, 0, 8])
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    self.tell([.neighbour(own)], loop.kernel)
    #expect(loop.turn() == [])
    #expect(loop.invalidations.contains("destroy networkChanged"))
  }

  @Test("D7 a router whose address never rests delays nobody for ever")
  func restlessRouter() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    var last: UInt8 = 0
    kernel.onNeighbour = {
      last &+= 1
      kernel.neighbours[$0] = try? self.router(last)
    }
    self.tell([.neighbour(try self.router(0))], loop.kernel)
    loop.loop.beginTurn()
    loop.loop.deal(with: .init(hasMessages: true, slept: nil))
    // It goes on, between what others want.
    #expect(loop.loop.isBusy)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    loop.kernel.onNeighbour = { _ in }
    _ = loop.turn()
    #expect(!loop.loop.isBusy)
    #expect(loop.kernel.watched.gateways == [try self.router(last)])
  }

  @Test("D6 K8 a look at flows waits for what the kernel has told by then, and only once")
  func wait() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let kernel = loop.kernel
    kernel.untold.append { [.rule(.ipv4)] }
    loop.loop.deal(with: .init(hasMessages: true, slept: nil))
    kernel.untold.append { [.rule(.ipv4)] }
    let before = kernel.questions
    loop.loop.evaluateFlows()
    #expect(kernel.questions == before && loop.loop.isBusy)
    loop.loop.evaluateFlows()
    #expect(kernel.questions > before)
  }

  // MARK: - Connections that are not on the path that is known

  /// 198.51.100.7 is wlan0's.
  private func loopWithWiFi() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(3, "wlan0")
      kernel.addTunnel(5, "gre1", to: "198.18.0.1")
      try kernel.give("198.51.100.7", to: 3)
    }
  }

  private func knownPath() throws -> Path {
    var path = Path(status: .satisfied, chain: [PathLink(index: 2, name: "eth0")])
    path.source = try IPAddress(spelt: "192.0.2.7")
    path.sourcePrefixLength = 24
    return path
  }

  @Test("I0 I3 a flow that a rule keeps on its link is on it, whatever path it was told of")
  func keptByRule() throws {
    var loop = try self.loopWithWiFi()
    try loop.kernel.lead("0.0.0.0", 0, .over(3, from: "198.51.100.7"), metric: 600)
    loop.kernel.pin(.over(3, from: "198.51.100.7", table: 100))
    #expect(
      try loop.guardFlow(1, local: "198.51.100.7", known: try self.knownPath())
        == ["1 path wlan0"])
    #expect(loop.tell() == ["1 advise betterPath"])
    #expect(loop.tell() == [])
    loop.kernel.pinned = [:]
    #expect(loop.tell() == ["1 destroy betterPath"])
  }

  @Test("I3 a route that moves between the making of a connection and its registration is told")
  func movedMeanwhile() throws {
    var loop = try self.loopWithWiFi()
    var made = try self.knownPath()
    made.chain = [PathLink(index: 3, name: "wlan0")]
    made.source = try IPAddress(spelt: "198.51.100.7")
    try loop.kernel.lead(
      "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 600)
    let told = try loop.guardFlow(1, local: "198.51.100.7", port: 40_000, known: made)
    #expect(told == ["1 destroy betterPath late wlan0"])
    // Without what was known before, it is on what there is now.
    #expect(try loop.guardFlow(2, local: "198.51.100.7", port: 40_000) == ["2 path eth0"])
    #expect(loop.tell() == [])
  }

  @Test(
    "I0 that only its address leads a new connection elsewhere is no change",
    arguments: [nil, 40_000 as UInt16])
  func ledByAddress(port: UInt16?) throws {
    var loop = try self.loopWithWiFi()
    let eth0 = try self.knownPath()
    // ip rule add from 192.0.2.7 lookup 100
    loop.kernel.pin(.over(3, via: "198.51.100.1", from: "192.0.2.7", table: 100))
    let told = try loop.guardFlow(1, local: "192.0.2.7", port: port, known: eth0)
    #expect(told == ["1 path wlan0"])
    #expect(!loop.tell().contains { $0.contains("destroy") })
  }

  @Test("I0 that only its port leads a new connection elsewhere is no change")
  func ledByPort() throws {
    var loop = try self.loopWithWiFi()
    let eth0 = try self.knownPath()
    loop.kernel.pinnedPorts = (40_000...40_001, .over(3, via: "198.51.100.1", from: "192.0.2.7"))
    #expect(
      try loop.guardFlow(1, local: "192.0.2.7", port: 40_000, known: eth0) == ["1 path wlan0"])
    #expect(loop.tell() == [])
  }

  @Test("I0 a connection that is sent from another link's address may work")
  func foreignAddress() throws {
    var loop = try self.loopWithWiFi()
    #expect(
      try loop.guardFlow(1, local: "198.51.100.7", known: try self.knownPath())
        == ["1 path eth0"])
    #expect(loop.tell() == [])
  }

  @Test("I5 that the category changes ends no flow whose own way is there")
  func categoryChanged() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.linkTable[3]?.device.type = "wlan"
    loop.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    #expect(try loop.guardFlow(1, local: "192.0.2.7") == ["1 path eth0"])
    try loop.kernel.lead("0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"))
    #expect(loop.tell() == ["1 advise betterPath"])
    #expect(loop.loop.engine.snapshot.status.category == .wifi)
    #expect(loop.invalidations.contains("destroy categoryChanged"))
  }

  /// Flow 1 is wlan0's, and was told of no path.
  private func guardWithoutPath(in loop: inout TestLoop) throws {
    loop.kernel.routes = []
    _ = loop.tell()
    #expect(
      try loop.guardFlow(1, local: "198.51.100.7", known: .unsatisfied(.noRoute))
        == ["1 advise interfaceLost late none"])
  }

  @Test("I0 a connection that was told of no path takes the first that there is")
  func knownWithoutPath() throws {
    var loop = try self.loopWithWiFi()
    try self.guardWithoutPath(in: &loop)
    try loop.kernel.lead("198.18.0.1", 32, .over(3, from: "198.51.100.7"))
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == ["1 path gre1"])
  }

  @Test("I10 a connection that was told of no path has its own link's grace")
  func knownWithoutPathOnWiFi() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.linkTable[3]?.device.type = "wlan"
    try self.guardWithoutPath(in: &loop)
    loop.kernel.setState(of: 3, .noCarrier)
    try loop.kernel.lead("203.0.113.0", 24, .over(3, from: "198.51.100.7"))
    #expect(loop.tell() == ["1 path wlan0 requiresConnection"])
  }

  @Test("I3 an address on a dummy is the machine's own, whichever way its traffic goes")
  func addressOfDummy() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.linkTable[3]?.link.kind = "dummy"
    #expect(try loop.guardFlow(1, local: "198.51.100.7") == ["1 path eth0"])
    #expect(loop.tell() == [])
    loop.kernel.take("198.51.100.7")
    #expect(loop.tell() == ["1 destroy sourceAddressLost"])
  }

  @Test(
    "I2 a link below the one that a flow was made on counts, whichever way its traffic goes now")
  func linkBelow() throws {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(6, "vlan5")
      kernel.addTunnel(5, "gre1", to: "198.18.0.1")
    }
    var known = try self.knownPath()
    known.chain = [PathLink(index: 6, name: "vlan5"), PathLink(index: 2, name: "eth0")]
    // With the lower link that is taken down a vlan goes, too.
    for link: UInt32 in [2, 6] { loop.kernel.setState(of: link, .down) }
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(try loop.guardFlow(1, known: known) == ["1 destroy interfaceLost late vlan5"])
  }

  // MARK: - UnusedLinks

  @Test("T3 I3 what happens to a link that a flow is bound to matters, though nothing leads there")
  func boundToNewLink() throws {
    var loop = try TestLoop.started()
    // Routes to the server pass the filter already.
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    _ = loop.tell()
    var new = Link(index: 7, name: "b0")
    new.isNew = true
    #expect(loop.tell([.link(new)]) == [])
    let readings = loop.count("readings")
    loop.kernel.addLink(7, "b0")
    #expect(loop.tell([.link(Link(index: 7, name: "b0"))]) == [])
    #expect(loop.count("readings") == readings)

    #expect(try loop.guardFlow(2, boundTo: 7) == ["2 path none unsatisfied"])
    loop.kernel.bound[7] = .over(7, from: "192.0.2.9")
    #expect(loop.tell([.link(Link(index: 7, name: "b0"))]) == ["2 path b0"])
  }

  @Test("D4 links that a client invents are not kept")
  func inventedLinks() throws {
    var loop = try TestLoop.started()
    var known = try self.knownPath()
    known.chain += [PathLink(index: 4711, name: "none")]
    _ = try loop.guardFlow(1, known: known)
    _ = loop.tell()
    var new = Link(index: 4711, name: "veth0")
    new.isNew = true
    // It is a bystander: nobody is on it.
    let matters = loop.loop.engine.interests.unusedLinks.mayMatter([.link(new)])
    #expect(!matters)
  }
}
