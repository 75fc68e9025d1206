import Connectivity
import Testing

@testable import ConnectivityMonitor

@Suite("The other way, for an application that may not use every network")
struct OtherWayAccessTests {
  private static func path(
    _ medium: NetworkMedium, costsMoney: Bool? = false, isConstrained: Bool = false
  ) -> KernelPath {
    KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: 4, name: "eth1")], medium: medium,
      isExpensive: costsMoney, constraint: isConstrained ? .constrained : .unconstrained)
  }

  private static let free = path(.wired)
  private static let metered = path(.cellular, costsMoney: true)
  private static let unknown = path(.wired, costsMoney: nil)
  private static let constrained = path(.wired, isConstrained: true)

  @Test("W6 C8 an application may use every network → the way stays as connd allowed it")
  func unrestricted() {
    for path in [Self.free, Self.metered, Self.unknown, Self.constrained] {
      #expect(OtherWay(path).limited(to: .unrestricted) == OtherWay(path))
    }
  }

  @Test("W6 C8 each restriction and path → the reason why not")
  func restricted() {
    var (free, unconstrained, wired) = (
      NetworkAccess.unrestricted, NetworkAccess.unrestricted, NetworkAccess.unrestricted
    )
    free.allowsExpensiveAccess = false
    unconstrained.allowsConstrainedAccess = false
    wired.prohibitedMedia = [.cellular]
    let table: [(NetworkAccess, KernelPath, OtherWay.Reason?)] = [
      (free, Self.free, nil),
      (free, Self.metered, .expensive),
      (free, Self.unknown, .expensive),
      (free, Self.constrained, nil),
      (unconstrained, Self.free, nil),
      (unconstrained, Self.metered, nil),
      (unconstrained, Self.constrained, .constrained),
      (wired, Self.free, nil),
      (wired, Self.metered, .noOtherPath),
    ]
    for (access, path, reason) in table {
      let way = OtherWay(path).limited(to: access)
      #expect(way.whyNot == reason, "\(access) \(path)")
      #expect(way.isAllowed == (reason == nil))
    }
  }

  @Test("W6 connd does not allow the way → its reason stays")
  func refused() {
    var access = NetworkAccess.unrestricted
    access.allowsExpensiveAccess = false
    let way = OtherWay(Self.metered, whyNot: .roaming)
    #expect(way.limited(to: access) == way)
    #expect(OtherWay(whyNot: .tunnel).limited(to: access) == OtherWay(whyNot: .tunnel))
  }
}
