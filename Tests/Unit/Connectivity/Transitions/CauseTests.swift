import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Causes")
struct CauseTests {
  private static let wifi = TestLink.wifi
  private static let noise: KernelEvent = .linkRemoved(TestLink.noise.link)

  /// The cause of the change that a batch publishes.
  private static func cause(
    _ before: [TestLink], _ events: [KernelEvent], _ after: [TestLink]
  ) -> ChangeCause? {
    var story = Story()
    story.read(Observation(before))
    story.read(Observation(after), events)
    return story.causes.count == 2 ? story.causes[1] : nil
  }

  @Test("T5 a loss names the first message about it, not the noise around it")
  func loss() {
    let lost = Self.wifi.withoutCarrier
    #expect(
      Self.cause(
        [Self.wifi], [Self.noise, Self.wifi.scanNoise, .link(lost.link), Self.noise], [lost])
        == ChangeCause(.link, "carrierLost", message: "RTM_NEWLINK", interface: "wlan0"))
    #expect(
      Self.cause([Self.wifi], [Self.noise] + Self.wifi.routeRemoved(.ipv4), [])
        == ChangeCause(.route, "routeRemoved", message: "RTM_DELROUTE", interface: "wlan0"))
    #expect(
      Self.cause([Self.wifi], Self.wifi.removed(.ipv4) + [Self.noise], [])
        == ChangeCause(.address, "addressRemoved", message: "RTM_DELADDR", interface: "wlan0"))
    #expect(
      Self.cause([Self.wifi], [.ruleRemoved(.ipv4), Self.noise], [])
        == ChangeCause(.rule, "ruleRemoved", message: "RTM_DELRULE"))
  }

  @Test("T5 a link is set down and removed in one batch → the cause is the removal")
  func removal() {
    let down = Self.wifi.with { $0.isUp = false }
    let removed = ChangeCause(
      .link, "linkRemoved", message: "RTM_DELLINK", interface: "wlan0")
    let events: [KernelEvent] = [
      .link(down.link), Self.noise, .linkRemoved(Self.wifi.link),
    ]
    #expect(Self.cause([Self.wifi], events, []) == removed)
    // The address goes between the two.
    let all = [events[0]] + Self.wifi.removed(.ipv4) + events[1...]
    #expect(Self.cause([Self.wifi], all, []) == removed)
    // The link is back under the same name.
    #expect(Self.cause([Self.wifi], events + [.link(Self.wifi.link)], [Self.wifi]) == removed)
    let other = events.dropLast() + [.linkRemoved(TestLink.wired.link)]
    #expect(Self.cause([Self.wifi], Array(other), [])?.change == "linkDown")
  }

  @Test("T5 a gain names the deciding message")
  func gain() {
    let coming: [KernelEvent] =
      [.link(Self.wifi.with { $0.isUp = false }.link), .link(Self.wifi.link)]
      + Self.wifi.added(.ipv4) + Self.wifi.routeAdded(.ipv4)
      + [.link(Self.wifi.link), Self.wifi.scanNoise, Self.noise]
    #expect(
      Self.cause([], coming, [Self.wifi])
        == ChangeCause(.route, "routeAdded", message: "RTM_NEWROUTE", interface: "wlan0"))
    #expect(
      Self.cause([Self.wifi.withoutCarrier], coming, [Self.wifi])
        == ChangeCause(.link, "linkUp", message: "RTM_NEWLINK", interface: "wlan0"))
    let tentative = Self.wifi.with { $0.isTentative = [.ipv4: true, .ipv6: true] }
    #expect(
      Self.cause([tentative], coming, [Self.wifi])
        == ChangeCause(.address, "addressAdded", message: "RTM_NEWADDR", interface: "wlan0"))
  }

  @Test("T5 another link takes over → the cause is the new route, or the loss on the old link")
  func takenOver() {
    let routeAdded = TestLink.wired.routeAdded(.ipv4)
    #expect(
      Self.cause([Self.wifi], [.link(TestLink.wired.link)] + routeAdded, [.wired, Self.wifi])
        == ChangeCause(.route, "routeAdded", message: "RTM_NEWROUTE", interface: "eth0"))
    #expect(
      Self.cause([Self.wifi], [.linkRemoved(Self.wifi.link)] + routeAdded, [.wired])
        == ChangeCause(.link, "linkRemoved", message: "RTM_DELLINK", interface: "wlan0"))
  }

  @Test("T5 a rotated source address names the address")
  func rotation() {
    let after = Self.wifi.with { $0.host[.ipv4] = 8 }
    #expect(
      Self.cause([Self.wifi], after.added(.ipv4) + [.link(Self.wifi.link)], [after])
        == ChangeCause(.address, "addressAdded", message: "RTM_NEWADDR", interface: "wlan0"))
  }

  @Test("T5 a bounce names the message that shows it")
  func bounce() {
    #expect(
      Self.cause([Self.wifi], [Self.noise] + Self.wifi.routeRemoved(.ipv4), [Self.wifi])
        == ChangeCause(.route, "routeRemoved", message: "RTM_DELROUTE", interface: "wlan0"))
  }

  @Test("T5 the family that the summary follows determines the cause")
  func family() {
    let after = [
      Self.wifi.with {
        $0.gateway[.ipv4] = nil; $0.host[.ipv6] = 8
      }
    ]
    let events = Self.wifi.removed(.ipv6) + Self.wifi.routeRemoved(.ipv4)
    #expect(Self.cause([Self.wifi], events, after)?.change == "routeRemoved")
    // IPv4's reason changes and decides nothing; IPv6 is the gain.
    let before = [
      Self.wifi.with {
        $0.host[.ipv4] = nil; $0.gateway[.ipv6] = nil
      }
    ]
    let gained = [Self.wifi.with { $0.gateway[.ipv4] = nil }]
    let routes = Self.wifi.routeRemoved(.ipv4) + Self.wifi.routeAdded(.ipv6)
    #expect(Self.cause(before, routes, gained)?.change == "routeAdded")
  }

  @Test("T5 a reading ahead of its message blames no unrelated message")
  func ahead() {
    #expect(
      Self.cause([Self.wifi], [Self.noise], [Self.wifi.withoutCarrier])
        == ChangeCause(.link, "pathChanged", interface: "wlan0"))
    #expect(
      Self.cause([Self.wifi], [Self.noise], [])
        == ChangeCause(.route, "pathChanged", interface: "wlan0"))
  }

  @Test("T5 an expired route names its expiry")
  func expiry() {
    var story = Story()
    story.play("0s wifi")
    story.read(Observation([]), on: .expiry)
    #expect(story.causes.last == ChangeCause(.timer, "routeExpired"))
  }

  @Test("T5 a setting of the family that lookups depend on is named")
  func setting() {
    let dead = TestLink.wired.withoutCarrier
    #expect(
      Self.cause([dead, Self.wifi], [Self.noise, .setting(.ipv6), .setting(.ipv4)], [Self.wifi])
        == ChangeCause(.route, "settingChanged", message: "RTM_NEWNETCONF"))
    #expect(
      Self.cause([Self.wifi], [.setting(.ipv6)], [Self.wifi.with { $0.gateway[.ipv4] = nil }])
        == ChangeCause(.route, "pathChanged", interface: "wlan0"))
  }

  @Test("T5 a bridge that reaches its gateway by another port names the bridge")
  func bridgeEntry() {
    func observation(_ port: KernelPath.Link) -> Observation {
      var observation = Observation([TestLink.wired.with { $0.name = "br0" }])
      for family in AddressFamily.allCases { observation[family].path.chain.append(port) }
      return observation
    }
    let mac: [UInt8] = [2, 0, 0, 0, 0, 1]
    for (entry, expected) in [
      (
        BridgeEntry(mac, port: 8, bridge: 2),
        ChangeCause(.neighbour, "portChanged", message: "RTM_NEWNEIGH", interface: "br0")
      ),
      (
        BridgeEntry(mac, port: 8),
        ChangeCause(.neighbour, "portChanged", message: "RTM_NEWNEIGH", interface: "eth8")
      ),
      (BridgeEntry(mac, port: 40, bridge: 41), ChangeCause(.link, "pathChanged", interface: "br0")),
    ] {
      var story = Story()
      story.read(observation(KernelPath.Link(index: 7, name: "eth7")))
      story.read(
        observation(KernelPath.Link(index: 8, name: "eth8")), [Self.noise, .bridgeEntry(entry)])
      #expect(story.transitions == ["0s unknown>wired", "0s path"])
      #expect(story.causes.last == expected)
    }
  }

  @Test("T5 a silent router is named if the kernel moves to another")
  func neighbour() {
    let after = Self.wifi.with { $0.gateway[.ipv4] = 2 }
    for (gateway, expected) in [
      (1, ChangeCause(.neighbour, "gatewayChanged", message: "RTM_NEWNEIGH", interface: "wlan0")),
      (2, ChangeCause(.neighbour, "gatewayChanged", message: "RTM_NEWNEIGH", interface: "wlan0")),
      (3, ChangeCause(.route, "pathChanged", interface: "wlan0")),
    ] {
      let address = Self.wifi.with { $0.gateway[.ipv4] = gateway }.gatewayAddress(.ipv4)
      let events = address.map {
        [KernelEvent.neighbour(Neighbour($0, link: Self.wifi.index, isFailed: true))]
      }
      #expect(Self.cause([Self.wifi], events ?? [], [after]) == expected)
    }
  }

  @Test("T5 messages were lost → none is named, and the cause is marked as learnt late")
  func overrun() {
    let late = ChangeCause(.overrun, "resynchronised", learntLate: true)
    #expect(Self.cause([Self.wifi], Self.wifi.removed(.ipv4) + [.overrun], []) == late)
    #expect(Self.cause([Self.wifi], [.overrun] + Self.wifi.removed(.ipv4), [Self.wifi]) == late)
  }

  @Test("T5 a change without messages names its occasion")
  func occasions() {
    var story = Story()
    story.play("0s wifi | 1s ? | 2s wifi")
    #expect(
      story.causes == [
        ChangeCause(.start, "started", learntLate: true), ChangeCause(.kernel, "kernelUnavailable"),
        ChangeCause(.kernel, "kernelAvailable", learntLate: true),
      ])
    story.read(Observation([.wired]), on: .configuration)
    #expect(story.causes.last == ChangeCause(.configuration, "reloaded"))
  }
}
