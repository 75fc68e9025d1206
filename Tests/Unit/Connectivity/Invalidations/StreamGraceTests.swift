import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Grace period of the stream")
struct StreamGraceTests {
  private static let both = AddressFamily.allCases
  private static let wifiLost = "1s wifi>none, advise interfaceLost wlan0, advise categoryChanged"
  private static let routeLost =
    "1s wifi>none, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged"
  private static let bothRoutesLost = """
    1s wifi>none, advise interfaceLost wlan0 ipv4 offLink, \
    advise interfaceLost wlan0 ipv6 offLink, advise categoryChanged
    """
  private static let isBack = "none>wifi, advise categoryChanged"

  // MARK: - The carrier

  @Test("I10 Wi-Fi carrier back within the grace period → nothing is destroyed")
  func carrierBack() {
    for families in [[.ipv4], Self.both] {
      #expect(
        Story.play("0s wifi | 1s wifi:dead | 1.9s wifi | 5s wifi", families) == [
          "0s unknown>wifi", Self.wifiLost, "1.9s \(Self.isBack)",
        ])
    }
  }

  @Test(
    "I10 Wi-Fi carrier away beyond the grace period → destroyed, and once more when another network begins"
  )
  func carrierLost() {
    for families in [[.ipv4], Self.both] {
      #expect(
        Story.play("0s wifi | 1s wifi:dead | 3s wifi", families) == [
          "0s unknown>wifi", Self.wifiLost,
          "2s destroy interfaceLost wlan0, destroy categoryChanged",
          "3s none>wifi, destroy categoryChanged",
        ])
    }
  }

  @Test(
    "I10 wired carrier lost → destroyed immediately",
    arguments: [("wired", "eth0"), ("cellular", "wwan0")])
  func otherMedia(category: String, interface: String) {
    #expect(
      Story.play("0s \(category) | 1s \(category):dead | 1.1s \(category)") == [
        "0s unknown>\(category)",
        "1s \(category)>none, destroy interfaceLost \(interface), destroy categoryChanged",
        "1.1s none>\(category), destroy categoryChanged",
      ])
  }

  @Test("I10 another path takes over → destroyed immediately")
  func takenOver() {
    #expect(
      Story.play("0s wifi cellular | 1s wifi:dead cellular | 1.5s wifi:dead:noroute cellular") == [
        "0s unknown>wifi", Self.wifiLost,
        "1.5s none>cellular, destroy interfaceLost wlan0, destroy categoryChanged",
      ])
  }

  @Test("I10 only the route is lost and another link takes over → drain, and destroy in the end")
  func routeTakenOver() {
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s wifi:noroute cellular") == [
        "0s unknown>wifi", Self.routeLost,
        "1.5s none>cellular, drain interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
        "2s destroy interfaceLost wlan0 ipv4 offLink, destroy categoryChanged",
      ])
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s wifi:noroute cellular | 1.9s wifi cellular")
        .last == "1.9s cellular>wifi, destroy betterPath wwan0 ipv4, advise categoryChanged")
  }

  @Test("I10 another family takes over in another category → the lost one keeps its grace period")
  func takenOverByTheOtherFamily() {
    let script = "0s wifi:noroute6 cellular:noroute4 | 1s wifi:noroute cellular:noroute4"
    #expect(
      Story.play(script, Self.both) == [
        "0s unknown>wifi",
        "1s wifi>cellular, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
        "2s destroy interfaceLost wlan0 ipv4 offLink, destroy categoryChanged",
      ])
    #expect(Story.follow(script, Self.both) == [])
  }

  // MARK: - The route

  @Test("I10 a default route deleted and added again within the grace period destroys nothing")
  func routeBack() {
    for families in [[.ipv4], Self.both] {
      #expect(
        Story.play("0s wifi | 1s wifi:noroute | 1.9s wifi | 5s wifi", families) == [
          "0s unknown>wifi", families == Self.both ? Self.bothRoutesLost : Self.routeLost,
          "1.9s \(Self.isBack)",
        ])
    }
  }

  @Test("I10 a default route away beyond the grace period → destroyed")
  func routeLost() {
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 2.5s wifi") == [
        "0s unknown>wifi", Self.routeLost,
        "2s destroy interfaceLost wlan0 ipv4 offLink, destroy categoryChanged",
        "2.5s none>wifi, destroy categoryChanged",
      ])
    let soft = InvalidationPolicy(categoryChanged: .drain)
    #expect(
      Story.play("0s wifi | 1s wifi:noroute", policy: soft).last
        == "2s destroy interfaceLost wlan0 ipv4 offLink, drain categoryChanged")
  }

  @Test("I10 only IPv6's route is lost → only its channels are in doubt")
  func routeOfOneFamily() {
    let lost = ["0s unknown>wifi", "1s path, advise interfaceLost wlan0 ipv6 offLink"]
    #expect(Story.play("0s wifi | 1s wifi:noroute6 | 1.5s wifi", Self.both) == lost + ["1.5s path"])
    #expect(
      Story.play("0s wifi | 1s wifi:noroute6 | 9s wifi", Self.both)
        == lost + ["2s destroy interfaceLost wlan0 ipv6 offLink", "9s path"])
  }

  @Test(
    "I10 a route is lost and the kernel chooses a dead link instead → the other family is not affected"
  )
  func otherDeadLink() {
    #expect(
      Story.play("0s wired wifi:dead | 1s wired:noroute4 wifi:dead", Self.both) == [
        "0s unknown>wired", "1s path, advise interfaceLost eth0 ipv4 offLink",
        "2s destroy interfaceLost eth0 ipv4 offLink",
      ])
  }

  @Test("I10 another path takes over for one family → the other's channels keep their grace period")
  func takenOverForOneFamily() {
    #expect(
      Story.play(
        "0s wifi cellular:noroute4 | 1s wifi:dead:noroute6 cellular:noroute4 | 1.5s wifi cellular:noroute4",
        Self.both) == [
          "0s unknown>wifi",
          """
          1s wifi>cellular, advise interfaceLost wlan0 ipv4, destroy interfaceLost wlan0 ipv6, \
          advise categoryChanged
          """,
          "1.5s cellular>wifi, destroy betterPath wwan0 ipv6, advise categoryChanged",
        ])
  }

  @Test("I10 both routes are lost and one comes back in time → the other's channels are destroyed")
  func routeOfOneFamilyBack() {
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s wifi:noroute6 | 9s wifi", Self.both) == [
        "0s unknown>wifi", Self.bothRoutesLost, "1.5s \(Self.isBack)",
        "2s destroy interfaceLost wlan0 ipv6 offLink", "9s path",
      ])
  }

  @Test("I10 T2 the link bounced and only IPv6 is back → IPv4's channels get a report")
  func bounceOfOneFamily() {
    var story = Story(Self.both)
    story.play("0s wifi")
    var scene = Scene(links: [.init(.wifi)])
    scene.links[0].link.gateway[.ipv4] = nil
    let link = TestLink.wifi
    let events: [KernelEvent] = [.link(link.withoutCarrier.link), .link(link.link)]
    var maker = story.maker
    func update(_ trigger: ReadTrigger, _ at: Int) -> [String] {
      maker.update(
        to: scene.reading(for: maker), on: trigger, at: Instant(milliseconds: at),
        time: WallTime(microseconds: 0)
      ).changes.compactMap(\.invalidation).map {
        "\($0.severity) \($0.reason) \($0.scope.family?.rawValue ?? "any")"
      }
    }
    #expect(
      update(.events(events), 1000)
        == ["advise interfaceLost ipv4", "advise categoryChanged any"])
    #expect(update(.timer, 2000) == ["destroy interfaceLost ipv4"])
  }

  // MARK: - What ends it early

  @Test("I10 back on another network → reported as soon as it is known")
  func otherNetwork() {
    #expect(
      Story.play("0s wifi | 1s wifi:dead | 1.5s wifi:router2") == [
        "0s unknown>wifi", Self.wifiLost,
        "1.5s none>wifi, destroy networkChanged wlan0 ipv4, destroy categoryChanged",
      ])
    #expect(
      Story.play("0s wifi | 1s wifi:dead | 1.5s wifi:norouter | 3s wifi:router2") == [
        "0s unknown>wifi", Self.wifiLost, "1.5s \(Self.isBack)",
        "3s destroy networkChanged wlan0 ipv4",
      ])
  }

  @Test("I10 the link or the address is removed during the grace period → it ends")
  func gone() {
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s wifi:noroute:down").last
        == "1.5s destroy interfaceLost wlan0, destroy categoryChanged")
    #expect(
      Story.play("0s wifi | 1s wifi:dead | 1.5s wifi:dead:noroute:noaddress").last
        == "1.5s path, destroy sourceAddressLost wlan0 ipv4 10.2.88.7, destroy categoryChanged")
  }

  // MARK: - T1 and K8

  @Test("T1 I10 a flapping link comes back within the grace → nothing is destroyed")
  func flapping() {
    let told = Story.play(
      "0s wifi | 1s wifi:dead | 1.1s wifi | 2s wifi:dead | 2.1s wifi | 3s wifi:dead | 3.9s wifi")
    #expect(
      told.suffix(2) == [
        "3s wifi>none, advise interfaceLost wlan0, advise categoryChanged", "3.9s \(Self.isBack)",
      ])
    #expect(!told.contains { $0.contains("destroy") })
  }

  @Test("T1 I10 a flapping link beside another that carries → it is never none")
  func flappingBesideAnother() {
    let told = Story.play(
      "0s wired wifi | 1s wired wifi !link | 2s wired wifi !link | 3s wired wifi !link")
    #expect(
      told.suffix(2) == Array(2...3).map { "\($0)s wired>wired bounced, advise categoryChanged" })
  }

  @Test(
    "K8 I10 a grace period that ends while the kernel cannot be asked waits for the next answer")
  func unknown() {
    let lost = ["0s unknown>wifi", Self.routeLost, "1.5s none>unknown"]
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s ? | 9s wifi")
        == lost + ["9s unknown>wifi, advise categoryChanged"])
    let end = "destroy interfaceLost wlan0 ipv4 offLink, destroy categoryChanged"
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s ? | 9s wifi:noroute")
        == lost + ["9s unknown>none, \(end)"])
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s ? | 1.6s wifi:noroute")
        == lost + ["1.6s unknown>none", "2s \(end)"])
  }

  @Test(
    "K8 I10 a loss while the kernel could not be asked has its grace period from the next answer on"
  )
  func lostWhileUnknown() {
    // The summary followed IPv6, which is not the preferred family.
    for script in ["0s wifi:noroute", "0s wifi"] {
      let family = script == "0s wifi" ? AddressFamily.ipv4 : .ipv6
      #expect(
        Story.play("0s wifi | 1s ? | 9s wifi:noroute", [family]).suffix(2) == [
          """
          9s unknown>none, advise interfaceLost wlan0 \(family) offLink, advise categoryChanged
          """,
          "10s destroy interfaceLost wlan0 \(family) offLink, destroy categoryChanged",
        ])
    }
  }

  // MARK: - Reports to a flow about the same events

  @Test(
    "I10 stream and flow get the same verdicts for the same scope",
    arguments: [
      ("1s wifi:dead | 1.5s wifi", ["1s advise interfaceLost"]),
      ("1s wifi:dead", ["1s advise interfaceLost", "2s destroy interfaceLost"]),
      ("1s wifi:noroute | 1.5s wifi", ["1s advise interfaceLost"]),
      ("1s wifi:noroute", ["1s advise interfaceLost", "2s destroy interfaceLost"]),
      ("1s wired wifi", ["1s destroy betterPath"]),
      ("1s wifi:router2", ["1s advise networkChanged"]),
      ("1s wifi:router2 !link", ["1s destroy networkChanged"]),
      ("1s wifi:rotated | 2s wifi:host8", ["2s destroy sourceAddressLost"]),
      ("1s wifi !link", []),
      ("1s ? | 2s wifi", []),
    ] as [(String, [String])])
  func flow(script: String, expected: [String]) {
    #expect(Story.follow("0s wifi | \(script)") == expected)
  }

  @Test("I5 a lost route does not affect flows to a neighbour or to the machine itself")
  func spared() {
    let script = "0s wifi | 1s wifi:noroute | 3s wifi | 4s wifi cellular | 5s wifi:noroute cellular"
    #expect(Story.follow(script, to: .neighbour(3)) == [])
    #expect(Story.follow(script, to: .local) == [])
    #expect(
      Story.follow("0s wifi | 1s wifi:dead", to: .neighbour(3)).last == "2s destroy interfaceLost")
    #expect(Story.follow("0s wifi | 1s", to: .local) == [])
  }
}
