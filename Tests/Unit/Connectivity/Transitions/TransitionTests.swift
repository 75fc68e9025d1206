import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Transitions")
struct TransitionTests {
  /// The link of all paths, in both families.
  private static let wifi = TestLink.wifi
  private static let both = AddressFamily.allCases

  /// Plays a first reading of `before`, then a batch with `events` and the reading `after`.
  private static func play(
    _ before: [TestLink], _ events: [KernelEvent], _ after: [TestLink]
  ) -> Story {
    var story = Story()
    story.read(Observation(before))
    story.read(Observation(after), events)
    return story
  }

  // MARK: - T2

  @Test("T2 a bounce is never swallowed, and has its own generation")
  func bounce() {
    var story = Story()
    story.play("0s wifi | 1s wifi !address | 2s wifi !link | 13s wifi !route")
    #expect(
      story.transitions == [
        "0s unknown>wifi", "1s wifi>wifi bounced", "2s wifi>wifi bounced", "13s wifi>wifi bounced",
      ])
    #expect(Set(story.changes.map(\.generation)).count == story.changes.count)
    #expect(story.maker.snapshot.since == WallTime(microseconds: 13_000_000))
  }

  @Test(
    "T2 a message about a loss turns an equal reading into a bounce",
    arguments: [
      [.link(wifi.withoutCarrier.link)],
      [.link(wifi.with { $0.isUp = false }.link)],
      [.link(Link(index: 3, name: "wlan0", flags: []))],
      [
        .link(
          Link(
            index: 3, name: "wlan0", flags: [.up, .lowerUp, .dormant], operationalState: .dormant,
            carrier: true))
      ],
      [.linkRemoved(wifi.link)],
      wifi.removed(.ipv4),
      wifi.with { $0.isTentative[.ipv4] = true }.added(.ipv4),
      wifi.routeRemoved(.ipv4),
      [.overrun] + wifi.removed(.ipv4),
      TestLink.noise.added(.ipv4) + wifi.removed(.ipv4),
    ] as [[KernelEvent]])
  func evidence(events: [KernelEvent]) {
    let story = Self.play([Self.wifi], events, [Self.wifi])
    #expect(story.transitions.last == "0s wifi>wifi bounced")
  }

  @Test(
    "T2 one of an address's entries is removed → a bounce only if no other held the address",
    arguments: [
      ([24, 32], "-32", false), ([24, 32], "-24", false), ([24], "-24 +24", true),
      ([24, 32], "-24 -32 +24 +32", true), ([24], "+32 -24", false), ([24], "-24 +32", true),
      ([], "-24", true),
    ])
  func entriesOfAddress(lengths: [Int], script: String, isBounce: Bool) throws {
    var observation = Observation([Self.wifi])
    observation.ipv4.sourcePrefixLengths = Set(lengths)
    let source = try #require(observation.ipv4.path.source)
    let events = try script.split(separator: " ").map { word in
      let length = try #require(Int(word.dropFirst()))
      let entry = Address(source, prefixLength: length, link: Self.wifi.index)
      return word.hasPrefix("+") ? KernelEvent.address(entry) : .addressRemoved(entry)
    }
    var story = Story()
    story.read(observation)
    story.read(observation, events)
    #expect((story.transitions.last == "0s wifi>wifi bounced") == isBounce)
  }

  @Test("T2 the removal of the route's nexthop object shows a bounce")
  func nexthop() {
    var observation = Observation([Self.wifi])
    observation.ipv4.route?.nexthop = 42
    var story = Story()
    story.read(observation)
    story.read(observation, [.nexthopRemoved(id: 41), .nexthop(id: 41)])
    #expect(story.transitions == ["0s unknown>wifi"])
    story.read(observation, [.nexthopRemoved(id: 42), .nexthop(id: 42)])
    #expect(story.transitions.last == "0s wifi>wifi bounced")
  }

  @Test("T2 a bounce of the family that the summary does not follow → a path event")
  func otherFamily() {
    #expect(
      Story.transitions("0s wifi | 1s wifi !address6", Self.both) == ["0s unknown>wifi", "1s path"])
    #expect(
      Story.transitions("0s wifi | 1s wifi !address", Self.both, preferred: .ipv6)
        == ["0s unknown>wifi", "1s path"])
    #expect(
      Story.transitions("0s wifi | 1s wifi !address6", [.ipv6])
        == ["0s unknown>wifi", "1s wifi>wifi bounced"])
  }

  @Test("T2 one message about both families is one bounce")
  func bothFamilies() {
    #expect(
      Story.transitions("0s wifi | 1s wifi !link", Self.both)
        == ["0s unknown>wifi", "1s wifi>wifi bounced"])
  }

  @Test("T2 the link was lost and only the other family is back → a bounce, too")
  func takenOverByTheOtherFamily() {
    let events: [KernelEvent] = [.link(Self.wifi.withoutCarrier.link), .link(Self.wifi.link)]
    let after = Self.wifi.with { $0.gateway[.ipv4] = nil }
    let story = Self.play([Self.wifi], events, [after])
    #expect(story.transitions.last == "0s wifi>wifi bounced")
    #expect(story.maker.snapshot.status.family == .ipv6)
  }

  @Test("T2 a link that was lost and is back with another address → a bounce")
  func otherAddress() {
    let after = Self.wifi.with { $0.host[.ipv4] = 8 }
    let events =
      Self.wifi.removed(.ipv4)
      + [.link(Self.wifi.withoutCarrier.link), .link(Self.wifi.link)] + after.added(.ipv4)
    #expect(Self.play([Self.wifi], events, [after]).transitions.last == "0s wifi>wifi bounced")
  }

  @Test(
    "T2 a link that is back under another index or name → a bounce",
    arguments: [wifi.with { $0.index = 12 }, wifi.with { $0.name = "wlp3s0" }])
  func recreated(after: TestLink) {
    let gone: KernelEvent =
      after.index == Self.wifi.index
      ? .link(Self.wifi.with { $0.isUp = false }.link) : .linkRemoved(Self.wifi.link)
    let story = Self.play([Self.wifi], [gone, .link(after.link)], [after])
    #expect(story.transitions.last == "0s wifi>wifi bounced")
    #expect(story.maker.snapshot.status.interface == after.name)
  }

  @Test("T2 another link takes over from a lost one → no bounce")
  func takenOver() {
    let events: [KernelEvent] = [.link(Self.wifi.withoutCarrier.link)]
    let links = [Self.wifi, .wifi2]
    let after = [Self.wifi.with { $0.gateway = [:] }, TestLink.wifi2]
    #expect(Self.play(links, events, after).transitions.last == "0s path")
    #expect(Self.play(links, events, [.wired]).transitions.last == "0s wifi>wired")
  }

  @Test(
    "T2 a default route that is back with another metric → a bounce; one that existed before → none"
  )
  func otherMetric() {
    var after = Observation([Self.wifi])
    after.ipv4.route?.priority = 50
    let removed = Self.wifi.routeRemoved(.ipv4)
    let added = Self.wifi.routeAdded(.ipv4, metric: 50)
    for (events, expected) in [
      (removed + added, ["0s unknown>wifi", "0s wifi>wifi bounced"]),
      (added + removed, ["0s unknown>wifi"]), (removed, ["0s unknown>wifi"]),
    ] {
      var story = Story()
      story.read(Observation([Self.wifi]))
      story.read(after, events)
      #expect(story.transitions == expected)
      // From then on the removal of this entry counts.
      story.read(after, removed)
      #expect(story.transitions == expected)
    }
  }

  @Test("T2 losses with merged messages are noticed by the kernel's carrier counter")
  func carrierCount() {
    #expect(
      Story.transitions("0s wifi:lost1 | 1s wifi:lost2 | 2s wifi:lost2 | 3s wifi:lost5")
        == ["0s unknown>wifi", "1s wifi>wifi bounced", "3s wifi>wifi bounced"])
    // Together with its message it is one bounce; together with a loss it does not count.
    #expect(
      Story.transitions("0s wifi:lost1 | 1s wifi:lost2 !link | 2s wifi:lost3:dead | 3s wifi:lost3")
        == ["0s unknown>wifi", "1s wifi>wifi bounced", "2s wifi>none", "3s none>wifi"])
    // The counter of a link that left the path has no effect.
    #expect(
      Story.transitions("0s wifi:lost1 | 1s wired:lost2 | 2s wired:lost2")
        == ["0s unknown>wifi", "1s wifi>wired"])
    // A smaller counter is that of a recreated link.
    #expect(Story.transitions("0s wifi:lost2 | 1s wifi:lost1") == ["0s unknown>wifi"])
    // The family that the summary does not follow.
    #expect(
      Story.transitions("0s wired:noroute6 wifi:lost1 | 1s wired:noroute6 wifi:lost2", Self.both)
        == ["0s unknown>wired", "1s path"])
  }

  @Test("T2 a carrier counter counts for each link of the chain, and the cause names the link")
  func carrierCountBelow() {
    func observation(_ counts: [UInt32: UInt32]) -> Observation {
      var observation = Observation([Self.wifi])
      observation.ipv4.path.chain.append(KernelPath.Link(index: 8, name: "eth8"))
      observation.ipv4.carrierDownCounts = counts
      return observation
    }
    var story = Story()
    story.read(observation([3: 1, 8: 1]))
    story.read(observation([3: 1, 8: 1, 9: 7]))
    story.read(observation([8: 1]))
    story.read(observation([3: 2, 8: 1]))
    #expect(story.transitions == ["0s unknown>wifi"])
    story.read(observation([3: 2, 8: 2]))
    #expect(story.transitions.last == "0s wifi>wifi bounced")
    #expect(
      story.causes.last
        == ChangeCause(.link, "carrierLost", message: "RTM_NEWLINK", interface: "eth8"))
  }

  // MARK: - T3 and T4

  @Test(
    "T3 an event that leaves the path alone publishes nothing",
    arguments: [
      [.link(TestLink.noise.link)], [.linkRemoved(TestLink.noise.link)],
      TestLink.noise.added(.ipv4) + TestLink.noise.removed(.ipv4),
      TestLink.noise.routeAdded(.ipv4) + TestLink.noise.routeRemoved(.ipv4),
      [wifi.scanNoise], [.link(wifi.link)], wifi.added(.ipv4), wifi.routeAdded(.ipv4),
      wifi.with { $0.host[.ipv4] = 9 }.removed(.ipv4),
      wifi.routeRemoved(.ipv4, metric: 601),
      wifi.with { $0.gateway[.ipv4] = 2 }.routeRemoved(.ipv4),
      [.rule(.ipv4), .ruleRemoved(.ipv6)], [.nexthop(id: 7), .nexthopRemoved(id: 7)],
      [.overrun], [.malformed("short")], [],
      [.address(Address("10.2.88.7", prefixLength: 24, link: 3, flags: .deprecated))],
      [
        .address(Address("10.2.88.7", prefixLength: 24, link: 3, flags: [.tentative, .optimistic]))
      ],
      // An unnumbered link borrows the address of the path's link.
      [.addressRemoved(Address("10.2.88.7", prefixLength: 32, link: 99))],
    ] as [[KernelEvent]])
  func unrelated(events: [KernelEvent]) {
    let story = Self.play([Self.wifi], events, [Self.wifi])
    #expect(story.transitions == ["0s unknown>wifi"])
  }

  @Test("T3 a rotated source address of the same prefix is a path event", arguments: [false, true])
  func rotation(oldIsRemoved: Bool) {
    let after = Self.wifi.with { $0.host[.ipv4] = 8 }
    let events = after.added(.ipv4) + (oldIsRemoved ? Self.wifi.removed(.ipv4) : [])
    #expect(Self.play([Self.wifi], events, [after]).transitions.last == "0s path")
  }

  @Test("T3 the later removal of a former address publishes nothing")
  func rotatedAway() {
    let after = Self.wifi.with { $0.host[.ipv4] = 8 }
    var story = Self.play([Self.wifi], after.added(.ipv4), [after])
    story.read(Observation([after]), Self.wifi.removed(.ipv4))
    #expect(story.transitions == ["0s unknown>wifi", "0s path"])
  }

  @Test("T4 a return to the last published state is published, however often it happens")
  func published() {
    #expect(
      Story.transitions("0s wifi | 1s wired | 2s wifi | 3s wifi | 4s wifi:host8 | 5s wifi")
        == ["0s unknown>wifi", "1s wifi>wired", "2s wired>wifi", "4s path", "5s path"])
  }

  @Test("T4 the first reading is compared with what an earlier run published")
  func restored() {
    var first = Story(Self.both)
    first.play("0s wifi | 1s wifi:noroute6")
    let snapshot = first.maker.snapshot

    var same = Story(restored: snapshot)
    same.play("9s wifi | 10s wifi !route")
    #expect(same.transitions == ["10s wifi>wifi bounced"])
    #expect(same.changes.first?.generation == snapshot.generation + 1)

    var other = Story(restored: snapshot)
    other.play("9s wired")
    #expect(other.transitions == ["9s wifi>wired"])
  }

  @Test("K7 another preferred family → another summary")
  func preferred() {
    var story = Story(Self.both)
    story.play("0s wired:noroute4 wifi:noroute6")
    story.preferred = .ipv6
    story.play("1s wired:noroute4 wifi:noroute6")
    #expect(story.transitions.last == "1s wifi>wired")
  }

  @Test("K8 a kernel that cannot be asked → unknown, never none")
  func unknown() {
    #expect(
      Story.transitions("0s ? | 1s ? | 2s wifi | 3s ? | 4s")
        == ["2s unknown>wifi", "3s wifi>unknown", "4s unknown>none"])
  }
}
