import Connectivity
import ConnectivityRules
import Testing

/// Flows with an address assigned by an IPsec VPN: the address moves from link to link with the
/// tunnel (RFC 4555).
@Suite("Addresses assigned by a VPN")
struct GivenAddressTests {
  private static let given = FlowReading.by(.wifi).with { $0.isSourceAssignedByVPN = true }
  private static func begin() -> FollowedFlow {
    var flow = FollowedFlow(on: .by(.wifi))
    #expect(flow.see(Self.given) == nil)
    return flow
  }

  private static let gone = FlowReading.noRoute.with { $0.sourceLoss = .final }

  @Test(
    "I2 I10 the tunnel's link fails → its flows drain if another takes over, and are in doubt for as long as the VPN may need"
  )
  func linkFails() {
    for left in [FlowReading.FormerLink.failed, .withRoute, .withoutRoute, .withWorseRoute] {
      var flow = Self.begin()
      #expect(flow.see(.by(.cellular, leaving: left)) == "drain interfaceLost")
      #expect(flow.deadline == 30_000)
      // The tunnel has moved.
      var moved = flow
      #expect(
        moved.see(
          .by(.cellular, leaving: .untied).with { $0.isSourceAssignedByVPN = true }, at: 500) == nil
      )
      #expect(moved.deadline == nil)
      #expect(moved.see(.by(.wired, leaving: .failed), at: 600) == "drain interfaceLost")
      #expect(flow.see(.by(.cellular, leaving: left), at: 29_999) == nil)
      let hasRoute = left == .withRoute || left == .withWorseRoute
      #expect(
        flow.see(.by(.cellular, leaving: left), at: 30_000)
          == "destroy \(hasRoute ? "betterPath" : "interfaceLost")")
    }
  }

  @Test(
    "I10 no link takes over → the flow has the route's grace period, or longer if one does in time"
  )
  func nothingElse() {
    for lost in [FlowReading.by(TestLink.wifi.withoutCarrier), .noRoute] {
      var flow = Self.begin()
      #expect(flow.see(lost) == "advise interfaceLost" && flow.deadline == 1000)
      var back = flow
      #expect(back.see(Self.given, at: 999) == nil && back.deadline == nil)
      var taken = flow
      #expect(taken.see(.by(.cellular, leaving: .failed), at: 900) == "drain interfaceLost")
      #expect(taken.deadline == 30_900)
      #expect(flow.see(lost, at: 1000) == "destroy interfaceLost")
    }
  }

  @Test("I1 the address is lost, perhaps on its way to another link → the route's grace period")
  func addressGoes() {
    var flow = Self.begin()
    #expect(flow.see(Self.gone) == "advise sourceAddressLost" && flow.deadline == 1000)
    var back = flow
    #expect(back.see(Self.given, at: 999) == nil && back.deadline == nil)
    #expect(flow.see(Self.gone, at: 1000) == "destroy sourceAddressLost")
    // Also if the kernel would send IPv6 from a foreign address.
    var other = Self.begin()
    let sent = FlowReading.by(.cellular).with { $0.sourceLoss = .final }
    #expect(other.see(sent) == "advise sourceAddressLost" && other.deadline == 1000)
    #expect(other.see(sent, at: 1000) == "destroy sourceAddressLost")
  }

  @Test("I1 the VPN gives up and removes its address → flows in doubt end")
  func givesUp() {
    var flow = Self.begin()
    #expect(flow.see(.by(.cellular, leaving: .failed)) == "drain interfaceLost")
    #expect(flow.see(Self.gone, at: 5000) == "advise sourceAddressLost")
    #expect(flow.see(Self.gone, at: 6000) == "destroy sourceAddressLost")
  }

  @Test("I9 I3 better paths are softened to drain → one report when the VPN's time is over")
  func softened() {
    var flow = FollowedFlow(on: .by(.wifi), policy: InvalidationPolicy(betterPath: .drain))
    #expect(flow.see(Self.given) == nil)
    let moved = FlowReading.by(.cellular, leaving: .withRoute)
    #expect(flow.see(moved) == "drain interfaceLost")
    #expect(flow.see(moved, at: 30_000) == "drain betterPath" && flow.deadline == nil)
    #expect(flow.see(moved, at: 30_001) == nil && flow.deadline == nil)
  }

  @Test("I4 another network behind the tunnel's link → advised")
  func otherNetwork() {
    var flow = Self.begin()
    let other = FlowReading.by(.wifi, router: 2, epoch: 1, first: 1).with {
      $0.isSourceAssignedByVPN = true
    }
    #expect(flow.see(other) == "advise networkChanged")
  }

  @Test("I1 an address not assigned by a VPN is lost → destroyed immediately")
  func own() {
    var flow = FollowedFlow(on: .by(.wifi))
    #expect(flow.see(Self.gone) == "destroy sourceAddressLost")
  }
}
