import Connectivity
import Testing

@testable import ConnectivityMonitor

/// The guard's machine for a connection that has two subflows: by wlan0 from 192.0.2.7, and by eth0
/// from 198.51.100.7.
@Suite("M6 A Multipath TCP connection ends with its last subflow")
struct SubflowGuardTests {
  private static let remote = IPAddress("203.0.113.9").unsafelyUnwrapped
  private static let first = Subflow(
    IPAddress("192.0.2.7").unsafelyUnwrapped, 40_000, to: Self.remote, 443, on: "wlan0",
    isBound: false)
  private static let second = Subflow(
    IPAddress("198.51.100.7").unsafelyUnwrapped, 50_000, to: Self.remote, 443, on: "eth0",
    isBound: true)

  private var machine: GuardMachine
  /// The numbers of the requested lists.
  private var requests: [GuardMachine.ListNumber] = []

  /// The connection has been made, with its first subflow, which connd guards as 2.
  init() {
    let flow = FlowGuard.Flow(remote: Self.remote, transport: Transport(6, remotePort: 443))
    self.machine = GuardMachine.begin(flow).0
    _ = self.machine.handle(.event(Self.path("wlan0"), of: 1))
    _ = self.handle(.subflows([Self.first]))
  }

  private static func path(_ link: String) -> FlowEvent {
    let source = link == "wlan0" ? Self.first.local : Self.second.local
    return .path(
      KernelPath(
        status: .satisfied, chain: [KernelPath.Link(index: link == "wlan0" ? 3 : 2, name: link)],
        source: source))
  }

  private static let noPath = FlowEvent.path(.unsatisfied(.noRoute))

  private static func invalidation(
    _ severity: Invalidation.Severity, _ reason: Invalidation.Reason = .interfaceLost
  ) -> FlowEvent {
    .invalidation(
      InvalidationError(
        reason: reason, severity: severity, cause: ChangeCause(.link, "linkDown"),
        path: .unsatisfied(.noRoute)))
  }

  private mutating func handle(_ input: GuardMachine.Input) -> [String] {
    let actions = self.machine.handle(input)
    for case .listSubflows(_, let number) in actions { self.requests.append(number) }
    return actions.map(\.words)
  }

  /// The last requested list arrives.
  private mutating func listed(_ list: [Subflow]) -> [String] {
    self.handle(.subflows(list, self.requests.last))
  }

  /// A list arrives that was requested before the last one.
  private mutating func listedLate(_ list: [Subflow]) -> [String] {
    self.handle(.subflows(list, self.requests.dropLast().last))
  }

  private mutating func told(_ event: FlowEvent, of id: UInt64) -> [String] {
    self.handle(.event(event, of: id))
  }

  /// connd reports the first subflow's path. Then the kernel lists the second, which connd guards
  /// as 3.
  private mutating func join() {
    _ = self.told(Self.path("wlan0"), of: 2)
    _ = self.listed([Self.first, Self.second])
    _ = self.told(Self.path("eth0"), of: 3)
  }

  @Test("M6 the connection is made → its subflows are guarded, each as itself")
  func made() {
    let flow = FlowGuard.Flow(remote: Self.remote, transport: Transport(6, remotePort: 443))
    var bound = flow
    bound.interface = "wlan0"
    let second = "register 3 from 198.51.100.7:50000 on eth0"
    for (flow, first) in [
      (flow, "register 2 from 192.0.2.7:40000 made on wlan0"),
      // The application has bound the connection itself.
      (bound, "register 2 from 192.0.2.7:40000 on wlan0 made on wlan0"),
    ] {
      var (machine, _) = GuardMachine.begin(flow)
      _ = machine.handle(.event(Self.path("wlan0"), of: 1))
      let actions = machine.handle(.subflows([Self.first, Self.second]))
      #expect(actions.map(\.words) == [first, second, "list later", "release 1"])
    }
  }

  @Test("M6 the connection was made before → its subflows are guarded from the beginning")
  func older() {
    let flow = FlowGuard.Flow(remote: Self.remote, transport: Transport(6, remotePort: 443))
    let (_, actions) = GuardMachine.begin(flow, by: [Self.second])
    #expect(
      actions.map(\.words) == ["register 2 from 198.51.100.7:50000 on eth0", "list later"])
  }

  @Test("M6 connd reports about a subflow → the list is read, and new subflows are guarded")
  mutating func another() {
    #expect(self.told(Self.path("wlan0"), of: 2) == ["verdict: path wlan0", "list"])
    #expect(
      self.listed([Self.first, Self.second]) == [
        "register 3 from 198.51.100.7:50000 on eth0"
      ])
    #expect(self.told(Self.path("eth0"), of: 3) == ["list"])
    #expect(self.listed([Self.first, Self.second]) == [])
  }

  @Test("M6 the kernel has closed a subflow → it is not guarded any more")
  mutating func closed() {
    self.join()
    // Its link is gone, and so is the name of the link in the list.
    var second = Self.second
    second.link = nil
    // The path of the connection is that of the other one now.
    #expect(self.listed([second]) == ["change: path eth0", "release 2"])
    #expect(self.listed([]) == [], "the connection is closing")
    #expect(self.told(Self.path("wlan0"), of: 2) == [], "an event of the former one")
  }

  @Test("M6 one of two subflows is lost → the path is that of the other")
  mutating func oneOfTwo() {
    self.join()
    #expect(self.told(Self.noPath, of: 2) == ["change: path eth0", "list"])
    #expect(self.told(Self.path("wlan0"), of: 2) == ["change: path wlan0", "list"])
    #expect(self.told(Self.invalidation(.destroy), of: 2) == ["release 2", "change: path eth0"])
    #expect(self.told(Self.noPath, of: 3) == ["change: no path", "list"])
  }

  @Test("M6 no other subflow exists for the grace period → the connection is given up")
  mutating func none() {
    _ = self.told(Self.path("wlan0"), of: 2)
    #expect(self.told(Self.invalidation(.destroy), of: 2) == ["release 2", "list"])
    #expect(self.listed([Self.first]) == ["list later"])
    #expect(self.listed([]) == ["change: destroy"])
    // Its owner may keep it. A list that was asked for before changes nothing.
    #expect(self.listed([Self.first]) == [])
    #expect(
      self.handle(.keep(on: "wlan0", awaitsReturn: false)) == [
        "register 3 from 192.0.2.7:40000 on wlan0", "release 2",
      ])
    #expect(self.listed([Self.first]) == [])
  }

  @Test("M6 a list was requested before the loss → it does not end the grace period")
  mutating func earlierList() {
    _ = self.told(Self.path("wlan0"), of: 2)
    _ = self.told(Self.invalidation(.advise), of: 2)
    #expect(self.told(Self.invalidation(.destroy), of: 2) == ["release 2", "list"])
    for list in [[], [Self.first]] { #expect(self.listedLate(list) == []) }
    #expect(self.listed([]) == ["list later"])
    for list in [[], [Self.first]] { #expect(self.listedLate(list) == []) }
    #expect(self.listed([]) == ["change: destroy"])
  }

  @Test("M6 I2 connd only advises about a lost subflow that is still listed → the connection ends")
  mutating func stranded() {
    _ = self.told(Self.path("wlan0"), of: 2)
    _ = self.told(Self.invalidation(.destroy), of: 2)
    _ = self.listed([Self.first])
    var other = self
    #expect(self.listed([Self.first]) == ["register 3 from 192.0.2.7:40000"])
    // Its link is down, and another has the route.
    let stranded = FlowEvent.invalidation(
      InvalidationError(
        reason: .interfaceLost, severity: .advise, cause: ChangeCause(.link, "linkDown"),
        path: Self.path("eth0").path ?? .unknown))
    #expect(self.told(stranded, of: 3) == ["release 3", "change: destroy"])
    // Without any path it is the same.
    _ = other.listed([Self.first])
    #expect(other.told(Self.noPath, of: 3) == ["release 3", "change: destroy"])
  }

  @Test("M6 a found subflow is in doubt until the grace period ends → the connection ends")
  mutating func foundInDoubt() {
    _ = self.told(Self.path("wlan0"), of: 2)
    _ = self.told(Self.invalidation(.destroy), of: 2)
    #expect(
      self.listed([Self.second]) == ["register 3 from 198.51.100.7:50000 on eth0", "list later"])
    #expect(self.told(Self.invalidation(.advise), of: 3) == [])
    var other = self
    #expect(self.listed([Self.second]) == ["release 3", "change: destroy"])
    // It stands before.
    #expect(other.told(Self.path("eth0"), of: 3) == ["change: path eth0", "list"])
  }

  @Test("M6 I11 connd has seen no path for a new connection → its end counts against connd")
  mutating func outcome() {
    _ = self.told(Self.invalidation(.destroy), of: 2)
    _ = self.listed([Self.first])
    #expect(self.listed([]) == ["outcome: destroy"])
  }

  @Test("M6 a subflow is made within the grace period → the connection goes on")
  mutating func late() {
    _ = self.told(Self.path("wlan0"), of: 2)
    _ = self.told(Self.invalidation(.destroy), of: 2)
    #expect(self.listed([]) == ["list later"])
    #expect(
      self.listed([Self.second]) == ["register 3 from 198.51.100.7:50000 on eth0"])
    #expect(self.listed([]) == [], "the last list is read once")
    #expect(self.told(Self.path("eth0"), of: 3) == ["change: path eth0", "list"])
  }

  @Test("M6 a found subflow is lost before it stood → the search goes on, and ends")
  mutating func foundAndLost() {
    _ = self.told(Self.path("wlan0"), of: 2)
    _ = self.told(Self.invalidation(.destroy), of: 2)
    _ = self.listed([Self.second])
    #expect(self.told(Self.invalidation(.destroy), of: 3) == ["release 3"])
    _ = self.listed([Self.second])
    #expect(self.told(Self.invalidation(.destroy), of: 4) == ["release 4", "change: destroy"])
  }

  @Test("M6 a better path ends the only subflow → it goes on if its link is used again in time")
  mutating func recovered() {
    _ = self.told(Self.path("wlan0"), of: 2)
    #expect(self.told(Self.invalidation(.destroy, .betterPath), of: 2) == ["release 2", "list"])
    _ = self.listed([Self.first])
    #expect(self.listed([Self.first]) == ["register 3 from 192.0.2.7:40000"])
    var other = self
    #expect(self.told(Self.path("wlan0"), of: 3) == ["list"])
    // Its packets still leave by the other link.
    #expect(other.told(Self.path("eth0"), of: 3) == ["release 3", "change: destroy"])
  }

  @Test("M6 a better path exists → nothing is reported")
  mutating func better() {
    self.join()
    for severity in [Invalidation.Severity.drain, .advise] {
      #expect(self.told(Self.invalidation(severity, .betterPath), of: 2) == ["list"])
    }
  }

  @Test("M6 I10 a subflow is in doubt → the path is that of the other; all are → in doubt")
  mutating func doubt() {
    self.join()
    #expect(self.told(Self.invalidation(.advise), of: 2) == ["change: path eth0", "list"])
    #expect(self.told(Self.invalidation(.advise), of: 3) == ["change: advise", "list"])
    #expect(self.told(Self.path("eth0"), of: 3) == ["change: path eth0", "list"])
    #expect(self.told(Self.path("wlan0"), of: 2) == ["change: path wlan0", "list"])
  }

  @Test(
    "M6 I6 I8 a sleep, or a forbidden cost → the connection is given up with all its subflows",
    arguments: [Invalidation.Reason.resumed, .policy])
  mutating func ofAll(reason: Invalidation.Reason) {
    self.join()
    #expect(self.told(Self.invalidation(.advise, reason), of: 2) == ["change: advise", "list"])
    #expect(self.told(Self.invalidation(.destroy, reason), of: 2) == ["change: destroy"])
    // One report is enough.
    #expect(self.told(Self.invalidation(.destroy, reason), of: 3) == [])
    #expect(self.listed([Self.first, Self.second]) == [])
    // Its owner keeps it, with all subflows.
    #expect(
      self.handle(.keep(on: "wlan0", awaitsReturn: false)) == [
        "register 4 from 192.0.2.7:40000", "register 5 from 198.51.100.7:50000 on eth0",
        "release 2", "release 3", "list",
      ])
    _ = self.told(Self.path("wlan0"), of: 4)
    _ = self.told(Self.path("eth0"), of: 5)
    #expect(self.told(Self.invalidation(.destroy), of: 4) == ["release 4", "change: path eth0"])
  }

  @Test("M6 connd refuses one subflow → the others are guarded; it refuses the only one → reported")
  mutating func refused() {
    var other = self
    other.join()
    let refusal = FlowEvent.refused(.exhausted("too many"))
    #expect(other.told(refusal, of: 3) == ["release 3"])
    #expect(self.told(refusal, of: 2) == ["release 2", "list"])
    _ = self.listed([])
    #expect(self.listed([]) == ["outcome: refused"])
  }

  @Test("M6 connd is absent → reported once for the connection")
  mutating func absent() {
    self.join()
    let absence = ConndAbsence.disconnected(.notAvailable("gone"))
    #expect(self.handle(.absent(absence, of: 2)) == ["absence"])
    #expect(self.handle(.absent(absence, of: 3)) == [])
  }

  @Test("M6 C4 the attempt failed after all → the path to its address is followed")
  mutating func follow() {
    self.join()
    #expect(self.handle(.follow) == ["register 4", "release 2", "release 3"])
  }

  @Test("M6 the guard ends, or the list arrives late → nothing more happens")
  mutating func end() {
    self.join()
    #expect(self.handle(.keep(on: "wlan0", awaitsReturn: true)) == [])
    #expect(self.handle(.end) == ["release 2", "release 3"])
    #expect(self.listed([Self.first]) == [])
  }
}
