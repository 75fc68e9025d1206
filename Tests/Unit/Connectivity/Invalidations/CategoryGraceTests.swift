import Connectivity
import Testing

@testable import ConnectivityRules

/// Invalidations of wide scope, if the path of the category may come back in time (I5, I9, I10).
@Suite("Grace period of the category")
struct CategoryGraceTests {
  private static let both = AddressFamily.allCases
  private static let start = ["0s unknown>wifi"]

  // MARK: - Another link

  @Test("I5 I10 only the cable's route is lost and Wi-Fi takes over → drain, then advise")
  func renewal() {
    let lost = [
      "0s unknown>wired",
      "1s wired>wifi, drain interfaceLost eth0 ipv4 offLink, advise categoryChanged",
    ]
    // If it is back in time, nothing ends except connections made on Wi-Fi in between.
    #expect(
      Story.play("0s wired wifi | 1s wired:noroute wifi | 1.002s wired wifi")
        == lost + ["1.002s wifi>wired, destroy betterPath wlan0 ipv4, advise categoryChanged"])
    #expect(
      Story.play("0s wired wifi | 1s wired:noroute wifi | 9s wired wifi")
        == lost + [
          "2s destroy interfaceLost eth0 ipv4 offLink, destroy categoryChanged",
          "9s wifi>wired, destroy betterPath wlan0 ipv4, destroy categoryChanged",
        ])
  }

  @Test("I5 I10 a renewal that is complete before connd reads → a bounce, and nothing ends")
  func renewalAsBounce() {
    #expect(
      Story.play("0s wired wifi | 1s wired wifi !route").last
        == "1s wired>wired bounced, advise categoryChanged")
    #expect(Story.follow("0s wired wifi | 1s wired wifi !route") == [])
  }

  @Test("I10 T1 a renewal is repeated three times → nothing is destroyed")
  func renewals() {
    let script =
      "0s wired wifi"
      + (1...4).map { " | \($0)s wired:noroute wifi | \($0).5s wired wifi" }.joined()
    let told = Story.play(script)
    #expect(told.count == 9)
    #expect(told.allSatisfy { !$0.contains("destroy categoryChanged") && !$0.contains("none") })
    #expect(
      Story.follow(script)
        == (1...4).map { "\($0)s drain interfaceLost" })
  }

  @Test("I5 I10 a renewal with both families, and with one")
  func renewalOfFamilies() {
    #expect(
      Story.play("0s wired wifi | 1s wired:noroute wifi", Self.both) == [
        "0s unknown>wired",
        """
        1s wired>wifi, drain interfaceLost eth0 ipv4 offLink, \
        drain interfaceLost eth0 ipv6 offLink, advise categoryChanged
        """,
        """
        2s destroy interfaceLost eth0 ipv4 offLink, destroy interfaceLost eth0 ipv6 offLink, \
        destroy categoryChanged
        """,
      ])
    // The summary does not follow IPv6.
    #expect(
      Story.play("0s wired wifi | 1s wired:noroute6 wifi", Self.both) == [
        "0s unknown>wired", "1s path, drain interfaceLost eth0 ipv6 offLink",
        "2s destroy interfaceLost eth0 ipv6 offLink",
      ])
  }

  @Test("I5 I10 a carrier is lost and another link takes over → destroyed immediately")
  func carrierTakenOver() {
    #expect(
      Story.play("0s wired wifi | 1s wired:dead:noroute wifi").last
        == "1s wired>wifi, destroy interfaceLost eth0, destroy categoryChanged")
    #expect(
      Story.play("0s wifi cellular | 1s wifi:dead:noroute cellular").last
        == "1s wifi>cellular, destroy interfaceLost wlan0, destroy categoryChanged")
  }

  @Test("I5 another link is preferred → destroyed immediately")
  func betterPath() {
    #expect(
      Story.play("0s cellular | 1s wifi cellular | 9s wifi cellular") == [
        "0s unknown>cellular",
        "1s cellular>wifi, destroy betterPath wwan0 ipv4, destroy categoryChanged",
      ])
  }

  @Test("I5 I10 another link of the same category fills a gap → no change of category")
  func sameCategory() {
    #expect(
      Story.play("0s wifi wifi2 | 1s wifi:noroute wifi2") == Self.start + [
        "1s path, drain interfaceLost wlan0 ipv4 offLink",
        "2s destroy interfaceLost wlan0 ipv4 offLink",
      ])
    // Only the gap was published in wide scope; channels of the old path get their own end.
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s wifi:noroute wifi2") == Self.start + [
        "1s wifi>none, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
        "1.5s none>wifi, drain interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
        "2s destroy interfaceLost wlan0 ipv4 offLink",
      ])
  }

  @Test("I5 I10 a category in doubt changes once more → the final category decides")
  func twice() {
    #expect(
      Story.play(
        "0s wired wifi cellular | 1s wired:noroute wifi cellular | "
          + "1.5s wired:noroute wifi:noroute cellular") == [
          "0s unknown>wired",
          "1s wired>wifi, drain interfaceLost eth0 ipv4 offLink, advise categoryChanged",
          "1.5s wifi>cellular, drain interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
          "2s destroy interfaceLost eth0 ipv4 offLink, destroy categoryChanged",
          "2.5s destroy interfaceLost wlan0 ipv4 offLink",
        ])
  }

  @Test("I5 I10 the link fails while its route is missing → the doubt ends")
  func failsInDoubt() {
    #expect(
      Story.play("0s wired wifi | 1s wired:noroute wifi | 1.5s wired:noroute:down wifi").last
        == "1.5s destroy interfaceLost eth0, destroy categoryChanged")
    #expect(
      Story.play("0s wired wifi | 1s wired:noroute wifi | 1.5s wired:noroute:noaddress wifi").last
        == "2s destroy sourceAddressLost eth0 ipv4 10.0.100.7, destroy categoryChanged")
  }

  @Test("I9 the policy is softened and the path does not come back → drain")
  func softened() {
    #expect(
      Story.play(
        "0s wired wifi | 1s wired:noroute wifi",
        policy: InvalidationPolicy(betterPath: .drain, categoryChanged: .drain)
      ).suffix(2) == [
        "1s wired>wifi, drain interfaceLost eth0 ipv4 offLink, advise categoryChanged",
        "2s destroy interfaceLost eth0 ipv4 offLink, drain categoryChanged",
      ])
  }

  // MARK: - Another family

  private static let lost =
    start + ["1s wifi>none, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged"]
  private static let byIPv6 = "0s wifi:noroute6 | 1s wifi:noroute | 1.5s wifi:noroute4"

  @Test("I5 I10 another family restores the category → in doubt until the path is back")
  func otherFamilyBack() {
    #expect(
      Story.play("\(Self.byIPv6) | 1.8s wifi | 9s wifi", Self.both)
        == Self.lost + ["1.5s none>wifi, advise categoryChanged", "1.8s path"])
  }

  @Test(
    "I5 I10 the grace period ends after another family restored the category → the category is kept"
  )
  func otherFamilyOverdue() {
    #expect(
      Story.play("\(Self.byIPv6) | 9s wifi", Self.both)
        == Self.lost + [
          "1.5s none>wifi, advise categoryChanged",
          "2s destroy interfaceLost wlan0 ipv4 offLink", "9s path",
        ])
  }

  @Test("I5 I10 a flow whose own path was there all the time gets no invalidation")
  func flow() {
    #expect(Story.follow("\(Self.byIPv6) | 9s wifi", Self.both, to: .through(3)) == [])
    #expect(
      Story.follow("\(Self.byIPv6) | 9s wifi", [.ipv6, .ipv4])
        == ["1s advise interfaceLost", "2s destroy interfaceLost"])
  }

  @Test("I5 another category → destroyed at the end of the old one's grace period")
  func otherCategory() {
    #expect(
      Story.play(
        "0s wifi:noroute6 cellular:noroute4 | 1s wifi:noroute cellular:noroute | "
          + "1.5s wifi:noroute cellular:noroute4", Self.both
      ).contains { $0.hasPrefix("2s ") && $0.hasSuffix("destroy categoryChanged") })
  }

  @Test("I5 I10 the lost path is back while the summary follows another → the advice is withdrawn")
  func backBesideAnother() {
    #expect(
      Story.play(
        "0s wired:noroute4 wifi:noroute | 1s wired:noroute wifi:noroute6 | "
          + "1.5s wired:noroute4 wifi:noroute6", Self.both) == [
          "0s unknown>wired",
          "1s wired>wifi, advise interfaceLost eth0 ipv6 offLink, advise categoryChanged",
          "1.5s path, destroy categoryChanged",
        ])
  }

  @Test("I5 I6 a long sleep during a grace period ends all, and what returns is another category")
  func longSleep() {
    #expect(
      Story.play("0s wired wifi | 1s slept:300s wired:noroute wifi | 1.5s wired wifi").suffix(2)
        == [
          "1s wired>wifi, drain interfaceLost eth0 ipv4 offLink, destroy categoryChanged",
          "1.5s wifi>wired, destroy betterPath wlan0 ipv4, destroy categoryChanged",
        ])
  }

  // MARK: - Guard

  @Test("I5 Guard gives no verdict on the category: a flow whose own way stands is spared")
  func guarded() {
    // A rule for its address keeps the flow on Wi-Fi, whatever the system prefers.
    let script = "0s wifi | 1s wired wifi | 2s wired:dead wifi | 3s wired wifi | 4s wifi"
    #expect(
      Story.follow(script, to: .ruled(3)) == ["1s advise betterPath", "3s advise betterPath"])
    #expect(Story.follow(script, to: .through(3)) == [])
    #expect(Story.follow(script) == ["1s destroy betterPath"])
  }
}
