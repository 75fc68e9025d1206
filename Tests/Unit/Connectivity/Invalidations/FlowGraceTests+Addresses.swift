import Connectivity
import Testing

@testable import ConnectivityRules

/// I1: an address that may come back has the grace period of the route.
extension FlowGraceTests {
  private static let sourceAway = FlowReading.noRoute.with { $0.sourceLoss = .mayReturn }

  @Test("I1 the address is lost while its link stays up → the route's grace period applies")
  func sourceAway() {
    // In IPv6 the kernel would keep sending from it.
    for lost in [Self.sourceAway, Self.wifi.with { $0.sourceLoss = .mayReturn }] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.see(lost) == "advise sourceAddressLost")
      #expect(flow.deadline == 1000)
      #expect(flow.see(lost, at: 999) == nil)
      var back = flow
      #expect(back.see(Self.wifi, at: 999) == nil && back.deadline == nil)
      // Each loss gets the full time.
      #expect(back.see(lost, at: 5000) == "advise sourceAddressLost" && back.deadline == 6000)
      #expect(flow.see(lost, at: 1000) == "destroy sourceAddressLost")
    }
  }

  @Test("I1 the address returns before its route → one grace period covers both")
  func sourceBeforeRoute() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.sourceAway) == "advise sourceAddressLost")
    #expect(flow.see(.noRoute, at: 300) == "advise interfaceLost")
    #expect(flow.deadline == 1000)
    var back = flow
    #expect(back.see(Self.wifi, at: 400) == nil && back.deadline == nil)
    #expect(flow.see(.noRoute, at: 1000) == "destroy interfaceLost")
  }

  @Test("I1 the address returns on another link, which carries the flow → nothing is destroyed")
  func sourceTakenOver() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.sourceAway) == "advise sourceAddressLost")
    #expect(flow.see(.by(.wired).with { $0.formerLink = .untied }, at: 300) == nil)
    #expect(flow.deadline == nil && flow.tracker.path == FlowReading.by(.wired).path)
  }

  @Test(
    "I1 the address is away, and its link fails or another replaces it → destroyed immediately")
  func sourceReplaced() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.sourceAway) == "advise sourceAddressLost")
    let final = Self.sourceAway.with { $0.sourceLoss = .final }
    #expect(flow.see(final, at: 300) == "destroy sourceAddressLost")
  }
}
