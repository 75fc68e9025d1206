import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("I7 Flows that were not guarded for a while")
struct PastInvalidationsTests {
  private static func past(
    _ reason: Invalidation.Reason, _ severity: Invalidation.Severity = .destroy,
    _ scope: Invalidation.Scope = .init(interface: "wlan0"), at generation: UInt64 = 7
  ) -> ConnectivityChange {
    .invalidation(
      Invalidation(
        generation: generation, reason: reason, severity: severity, scope: scope,
        cause: ChangeCause(.link, "linkDown"), time: WallTime(microseconds: 0)))
  }

  private static func path(gateway: IPAddress?) -> KernelPath {
    KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: 3, name: "wlan0")], source: "192.0.2.7",
      gateway: gateway)
  }

  private static func found(
    _ changes: [ConnectivityChange], remote: IPAddress = "203.0.113.5", local: IPAddress? = nil,
    since generation: UInt64? = 6, gateway: IPAddress? = "192.0.2.1", isLocal: Bool = false
  ) -> String? {
    let path = Self.path(gateway: gateway)
    let found = PastInvalidations(changes).gravest(
      of: Flow(Destination(remote), local: local), since: generation, path,
      FlowReading(path, isLocal: isLocal))
    return found.map { "\($0.severity) \($0.reason) \($0.generation)" }
  }

  @Test("I7 a scope includes a flow by its link, its address, its family and its gateway")
  func scopes() {
    let offLink = Invalidation.Scope(interface: "wlan0", destination: .offLink)
    #expect(Self.found([Self.past(.interfaceLost)]) == "destroy interfaceLost 7")
    #expect(Self.found([Self.past(.interfaceLost, .destroy, .init(interface: "eth0"))]) == nil)
    #expect(Self.found([Self.past(.categoryChanged, .destroy, .everything)]) == nil)
    // A neighbour needs no gateway.
    #expect(Self.found([Self.past(.interfaceLost, .destroy, offLink)]) != nil)
    #expect(Self.found([Self.past(.interfaceLost, .destroy, offLink)], gateway: nil) == nil)
    // The family is that of the destination, whatever the source of its path.
    let ipv6 = Invalidation.Scope(interface: "wlan0", family: .ipv6)
    #expect(Self.found([Self.past(.betterPath, .destroy, ipv6)]) == nil)
    #expect(Self.found([Self.past(.betterPath, .destroy, ipv6)], remote: "2001:db8::5") != nil)
    let source = Invalidation.Scope(localAddresses: ["192.0.2.7"])
    #expect(Self.found([Self.past(.sourceAddressLost, .destroy, source)]) == nil)
    #expect(
      Self.found([Self.past(.sourceAddressLost, .destroy, source)], local: "192.0.2.7") != nil)
  }

  @Test("I0 I7 a flow whose own address exists dies only if the network behind its link changed")
  func ownAddress() {
    #expect(Self.found([Self.past(.betterPath)], local: "192.0.2.7") == nil)
    #expect(
      Self.found([Self.past(.networkChanged)], local: "192.0.2.7") == "destroy networkChanged 7")
  }

  @Test("I2 a departure is the latest loss of a link, or of its preference, since a generation")
  func departures() {
    let changes = [
      Self.past(.interfaceLost, at: 6), Self.past(.networkChanged, at: 7),
      Self.past(.betterPath, .drain, at: 8), Self.past(.interfaceLost, .advise, at: 9),
      Self.past(.interfaceLost, .destroy, .init(interface: "wlan0", family: .ipv6), at: 10),
    ]
    func found(_ link: String = "wlan0", _ family: AddressFamily = .ipv4, since: UInt64?) -> UInt64?
    {
      PastInvalidations(changes).departure(from: link, family, since: since)?.generation
    }
    #expect(found(since: 5) == 8)
    #expect(found(since: 8) == nil)
    #expect(found(since: nil) == nil)
    #expect(found("eth0", since: 5) == nil)
    #expect(found("wlan0", .ipv6, since: 5) == 10)
  }

  @Test("I7 the most severe one since the client's generation counts, and of these the latest")
  func gravest() {
    let changes = [
      Self.past(.interfaceLost, .destroy, at: 6), Self.past(.networkChanged, .destroy, at: 7),
      Self.past(.betterPath, .destroy, at: 8), Self.past(.interfaceLost, .drain, at: 9),
      Self.past(.interfaceLost, .advise, at: 10),
    ]
    #expect(Self.found(changes) == "destroy betterPath 8")
    #expect(Self.found(changes, since: 8) == "drain interfaceLost 9")
    #expect(Self.found(changes, since: 9) == nil)
    #expect(Self.found(changes, since: nil) == nil)
    #expect(Self.found(changes, isLocal: true) == nil)
  }
}
