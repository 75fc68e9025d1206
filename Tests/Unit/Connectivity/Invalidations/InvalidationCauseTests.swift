import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Causes of invalidations")
struct InvalidationCauseTests {
  /// The causes of the last instant's invalidations, in order.
  private static func causes(
    _ script: String, _ families: [AddressFamily] = [.ipv4]
  ) -> [ChangeCause] {
    var story = Story(families)
    story.play(script)
    let last = story.changes.compactMap(\.invalidation?.time).max()
    return story.changes.compactMap(\.invalidation).filter { $0.time == last }.map(\.cause)
  }

  private static let deadlineOfWifi = ChangeCause(.timer, "graceEnded", interface: "wlan0")

  @Test("T5 a lost address names its removal, even long after new connections stopped using it")
  func addressRemoved() {
    let removed = ChangeCause(
      .address, "addressRemoved", message: "RTM_DELADDR", interface: "wlan0")
    #expect(Self.causes("0s wifi | 1s wifi:host8") == [removed])
    #expect(Self.causes("0s wifi | 1s wifi:rotated | 9s wifi:host8") == [removed])
    #expect(
      Self.causes("0s wifi | 1s wifi:noaddress")
        == [Self.deadlineOfWifi, ChangeCause(.timer, "graceEnded")])
  }

  @Test("T5 a failed link names the message about the failure")
  func linkDown() {
    let down = ChangeCause(.link, "linkDown", message: "RTM_NEWLINK", interface: "eth0")
    #expect(Self.causes("0s wired wifi | 1s wired:down wifi").first == down)
    let lost = ChangeCause(.link, "carrierLost", message: "RTM_NEWLINK", interface: "eth0")
    #expect(Self.causes("0s wired | 1s wired:dead") == [lost, lost])
  }

  @Test("T5 among several link messages, the cause names the one about the failed link")
  func amongOthers() {
    let wired = TestLink.wired
    let down = wired.with { $0.isUp = false }.link
    for (events, change) in [
      ([.linkRemoved(TestLink.noise.link), .linkRemoved(wired.link)], "linkRemoved"),
      ([.link(wired.link), .link(TestLink.wifi.withoutCarrier.link), .link(down)], "linkDown"),
      ([.link(down), .linkRemoved(TestLink.noise.link), .linkRemoved(wired.link)], "linkRemoved"),
    ] as [([KernelEvent], String)] {
      var maker = ChangeDetector()
      var scene = Scene(links: [.init(wired), .init(.wifi)])
      func update(_ events: [KernelEvent]) -> [ConnectivityChange] {
        maker.update(
          to: scene.reading(for: maker), on: .events(events), at: Instant(milliseconds: 0),
          time: WallTime(microseconds: 0)
        ).changes
      }
      _ = update([])
      scene.links[0].link.isUp = false
      let cause = update(events).compactMap(\.invalidation?.cause).first
      #expect(cause?.change == change)
      #expect(cause?.interface == "eth0")
    }
  }

  @Test("T5 another network names the message about the gateway")
  func gatewayChanged() {
    #expect(
      Self.causes("0s wifi | 1s wifi:router2")
        == [ChangeCause(.neighbour, "gatewayChanged", message: "RTM_NEWNEIGH", interface: "wlan0")])
  }

  @Test("T5 a better path names the new route")
  func routeAdded() {
    let added = ChangeCause(.route, "routeAdded", message: "RTM_NEWROUTE", interface: "wlan0")
    #expect(Self.causes("0s wifi:noroute cellular | 1s wifi cellular") == [added, added])
    // The same category: it is the cause of the path event.
    #expect(Self.causes("0s wifi:noroute wifi2 | 1s wifi wifi2") == [added])
  }

  @Test("T5 the end of a grace period names no message")
  func graceEnded() {
    #expect(
      Self.causes("0s wifi | 1s wifi:dead")
        == [Self.deadlineOfWifi, ChangeCause(.timer, "graceEnded")])
    #expect(
      Self.causes("0s wifi | 1s wifi:noroute6", AddressFamily.allCases) == [Self.deadlineOfWifi])
  }

  @Test("T5 I6 I7 a sleep, a restart and lost messages are the cause of whatever follows")
  func occasions() {
    let slept = ChangeCause(.sleep, "resumed")
    #expect(Self.causes("0s wifi | 9s slept:300s wifi:host8") == [slept, slept])
    let late = ChangeCause(.overrun, "resynchronised", learntLate: true)
    #expect(Self.causes("0s wifi | 1s wifi:host8 +overrun") == [late])
    let back = ChangeCause(.kernel, "kernelAvailable", learntLate: true)
    #expect(Self.causes("0s wifi | 1s ? | 9s wifi:host8") == [back])
  }
}
