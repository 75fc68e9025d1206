import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Stream invalidations")
struct InvalidationStreamTests {
  static let both = AddressFamily.allCases
  private static let soft = InvalidationPolicy(betterPath: .drain, categoryChanged: .drain)
  static let wifiAddress = "10.2.88.7"

  // MARK: - I1 to I4

  @Test("I1 a lost source address is reported with the address, its link and its family")
  func sourceAddressLost() {
    #expect(
      Story.play("0s wifi | 1s wifi:noaddress | 2s wifi") == [
        "0s unknown>wifi",
        "1s wifi>none, advise sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), advise categoryChanged",
        "2s destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), destroy categoryChanged",
        "2s none>wifi, destroy categoryChanged",
      ])
    #expect(
      Story.play("0s wifi | 1s wifi:noaddress6", Self.both).suffix(2) == [
        "1s path, advise sourceAddressLost wlan0 ipv6 2001:db8:258::7",
        "2s destroy sourceAddressLost wlan0 ipv6 2001:db8:258::7",
      ])
    // If its link fails, too, it is reported immediately.
    #expect(
      Story.play("0s wifi | 1s wifi:dead:noaddress").last
        == "1s wifi>none, destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), destroy categoryChanged"
    )
    // Another address replaces it: no path is lost, but its channels are.
    #expect(
      Story.play("0s wifi | 1s wifi:host8").last
        == "1s path, destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress)")
  }

  @Test(
    "T3 I1 an address that new connections no longer use is reported only when it is lost, and once"
  )
  func rotation() {
    #expect(
      Story.play("0s wifi | 1s wifi:rotated | 9s wifi:host8 | 10s wifi:host8 !route") == [
        "0s unknown>wifi", "1s path",
        "9s destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress)",
        "10s wifi>wifi bounced, advise categoryChanged",
      ])
  }

  @Test("I1 an address and its route come back within the grace period → nothing is destroyed")
  func sourceAddressBack() {
    let lost =
      "1s wifi>none, advise sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), advise categoryChanged"
    #expect(
      Story.play("0s wifi | 1s wifi:noaddress | 1.3s wifi:noroute | 1.9s wifi | 5s wifi") == [
        "0s unknown>wifi", lost, "1.3s path, advise interfaceLost wlan0 ipv4 offLink",
        "1.9s none>wifi, advise categoryChanged",
      ])
    // Another one comes instead.
    #expect(
      Story.play("0s wifi | 1s wifi:noaddress | 1.3s wifi:host8") == [
        "0s unknown>wifi", lost,
        "1.3s none>wifi, destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), destroy categoryChanged",
      ])
  }

  @Test("I1 a former address is lost → the grace period applies while its link stays up")
  func formerAddressAway() {
    let script = "0s wifi | 1s wifi:rotated | 2s wifi:noaddress:noroute"
    let lost = ["10.2.88.7", "10.2.88.8"].map { "sourceAddressLost wlan0 ipv4 \($0)" }
    #expect(
      Story.play(script).suffix(2) == [
        "2s wifi>none, advise \(lost[0]), advise \(lost[1]), advise categoryChanged",
        "3s destroy \(lost[0]), destroy \(lost[1]), destroy categoryChanged",
      ])
    #expect(
      Story.play("\(script) | 2.5s wifi:rotated | 9s wifi:rotated").last
        == "2.5s none>wifi, advise categoryChanged")
  }

  @Test("T3 I1 an address rotated back and forth is reported once")
  func rotationToAndFro() {
    let there = "wifi:rotated"
    #expect(
      Story.play(
        "0s wifi | 1s \(there) | 2s wifi | 3s \(there) | 4s wifi | 5s \(there) | 6s wifi:host8"
      )
      .last == "6s destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress)")
  }

  @Test("I1 the last 32 former addresses are remembered")
  func manyAddresses() {
    var maker = ChangeDetector()
    func update(_ host: Int, lost: [Int] = []) -> [ConnectivityChange] {
      let link = TestLink.wifi
      func address(_ host: Int) -> InvalidationDetector.AddressOnLink? {
        link.with { $0.host[.ipv4] = host }.source(.ipv4).map {
          .init(
            address: $0, prefixLength: 24, link: KernelPath.Link(index: link.index, name: link.name)
          )
        }
      }
      var scene = Scene(links: [.init(link.with { $0.host = [.ipv4: host] })])
      scene.links[0].formerAddresses = Set((1...200).compactMap { address($0)?.address })
      var reading = scene.reading(for: maker)
      for place in lost.compactMap(address) { reading.lostSources[place] = .final }
      return maker.update(
        to: reading, on: .events([]), at: Instant(milliseconds: 0), time: WallTime(microseconds: 0)
      ).changes
    }
    for host in 1...40 { #expect(update(host).count == 1) }
    #expect(maker.formerSources.count == 32)
    #expect(update(40, lost: Array(1...7)).isEmpty)
    #expect(update(40, lost: [8, 9]).count == 2)
    #expect(update(40, lost: [8, 9]).isEmpty)
  }

  @Test("I2 a link that is down or gone is reported for both families together")
  func interfaceLost() {
    #expect(
      Story.play("0s wifi | 1s wifi:down", Self.both).last
        == "1s wifi>none, destroy interfaceLost wlan0, destroy categoryChanged")
    #expect(
      Story.play("0s wired wifi | 1s wired:down wifi").last
        == "1s wired>wifi, destroy interfaceLost eth0, destroy categoryChanged")
  }

  @Test("I3 a better path of the same category is reported for its family only")
  func betterPath() {
    #expect(
      Story.play("0s wifi:noroute wifi2 | 1s wifi wifi2").last
        == "1s path, destroy betterPath wlan1 ipv4")
    #expect(
      Story.play("0s wifi:noroute wifi2 | 1s wifi wifi2", Self.both).last
        == "1s path, destroy betterPath wlan1 ipv4, destroy betterPath wlan1 ipv6")
    #expect(
      Story.play("0s wifi:noroute6 wifi2 | 1s wifi wifi2", Self.both).last
        == "1s path, destroy betterPath wlan1 ipv6")
  }

  @Test(
    "I3 I5 another category takes over → the old path's channels and the category are destroyed")
  func takeover() {
    #expect(
      Story.play("0s cellular | 1s wifi cellular").last
        == "1s cellular>wifi, destroy betterPath wwan0 ipv4, destroy categoryChanged")
  }

  @Test(
    "I9 softened: a better path and a changed category drain; a draining path can still be lost")
  func softened() {
    #expect(
      Story.play(
        "0s cellular | 1s wifi cellular | 2s wifi cellular | 3s wifi", policy: Self.soft) == [
          "0s unknown>cellular",
          "1s cellular>wifi, drain betterPath wwan0 ipv4, drain categoryChanged",
          "3s destroy sourceAddressLost wwan0 ipv4 10.2.188.7",
        ])
  }

  @Test("I4 another router behind the same link is reported as soon as the kernel knows it")
  func networkChanged() {
    #expect(
      Story.play("0s wifi | 1s wifi:dead | 1.5s wifi:router2", Self.both).last == """
        1.5s none>wifi, destroy networkChanged wlan0 ipv4, destroy networkChanged wlan0 ipv6, \
        destroy categoryChanged
        """)
    #expect(
      Story.play("0s wifi | 1s wifi:norouter !link | 2s wifi:norouter | 4s wifi:router2") == [
        "0s unknown>wifi", "1s wifi>wifi bounced, advise categoryChanged",
        "4s destroy networkChanged wlan0 ipv4",
      ])
    #expect(
      Story.play("0s wifi | 1s wifi:norouter !link | 2s wifi").count == 2)
  }

  @Test("I4 the gateway fails over to another router while the link stays up → advised")
  func failover() {
    #expect(
      Story.play("0s wifi | 1s wifi:router2 | 2s wifi:router2 | 3s wifi", Self.both) == [
        "0s unknown>wifi",
        """
        1s advise networkChanged wlan0 ipv4 offLink, advise networkChanged wlan0 ipv6 offLink
        """,
        """
        3s advise networkChanged wlan0 ipv4 offLink, advise networkChanged wlan0 ipv6 offLink
        """,
      ])
    #expect(Story.follow("0s wifi | 1s wifi:router2", to: .neighbour(3)) == [])
  }

  @Test("I3 another router of the same subnet is the same way → a path event")
  func otherGateway() {
    #expect(
      Story.play("0s wifi | 1s wifi:gateway2 | 2s wifi") == [
        "0s unknown>wifi", "1s path", "2s path",
      ])
    #expect(Story.follow("0s wifi | 1s wifi:gateway2") == [])
  }

  @Test("I3 new connections get an address of another subnet while the old one stays → destroyed")
  func renumbered() {
    #expect(
      Story.play("0s wifi | 1s wifi:renumbered | 9s wifi:subnet2")
        == ["0s unknown>wifi", "1s path, destroy betterPath wlan0 ipv4"])
    #expect(Story.follow("0s wifi | 1s wifi:renumbered") == ["1s destroy betterPath"])
  }

  @Test(
    "I4 T3 an address rotates while the router is unknown → the network is not forgotten")
  func networkChangedAfterRotation() {
    let rotated = "0s wifi | 1s wifi:norouter !link | 2s wifi:norouter:rotated"
    #expect(Story.play("\(rotated) | 3s wifi:rotated").last == "2s path")
    #expect(
      Story.play("\(rotated) | 3s wifi:rotated:router2").last
        == "3s destroy networkChanged wlan0 ipv4")
  }

  // MARK: - I5 and T2

  @Test("I5 the first category is not a change")
  func firstCategory() {
    #expect(Story.play("0s wifi") == ["0s unknown>wifi"])
    #expect(Story.play("0s ? | 1s wifi:dead") == ["1s unknown>none"])
  }

  @Test("T2 a bounce shown only by messages → advised", arguments: ["!link", "!address", "!route"])
  func bounce(message: String) {
    #expect(
      Story.play("0s wifi | 1s wifi \(message)").last
        == "1s wifi>wifi bounced, advise categoryChanged")
  }

  @Test(
    "T2 I0 a bounce to another network destroys, a bounce of the link alone does not"
  )
  func destructiveBounce() {
    #expect(
      Story.play("0s wifi | 1s wifi:index9").last == """
        1s wifi>wifi bounced, advise categoryChanged
        """)
    #expect(
      Story.play("0s wifi | 1s wifi:router2 !link").last
        == "1s wifi>wifi bounced, destroy networkChanged wlan0 ipv4, destroy categoryChanged")
  }

  @Test("T2 I5 I10 a bounce that ends in another category leaves the old path its grace period")
  func bounceIntoAnotherCategory() {
    #expect(
      Story.play(
        "0s wired:noroute4 wifi:noroute6 | 1s wired:noroute4 wifi:noroute !link", Self.both
      ) == [
        "0s unknown>wifi",
        """
        1s wifi>wired bounced, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged
        """,
        "2s destroy interfaceLost wlan0 ipv4 offLink, destroy categoryChanged",
      ])
  }

  @Test("T2 carrier losses merged into one message are noticed by the carrier counter")
  func countedBounce() {
    #expect(
      Story.play("0s wifi:lost1 | 1s wifi:lost2 | 2s wifi:lost2", Self.both) == [
        "0s unknown>wifi", "1s wifi>wifi bounced, advise categoryChanged",
      ])
  }

  @Test("T3 an event that leaves the path alone invalidates nothing")
  func noise() {
    #expect(
      Story.play("0s wifi cellular | 1s wifi cellular:dead | 2s wifi | 3s wifi wifi2 +overrun")
        == ["0s unknown>wifi"])
  }

  // MARK: - I9

  @Test("I9 narrow scopes come before the wide one")
  func narrowFirst() {
    // The link goes down, and takes its IPv6 addresses along.
    #expect(
      Story.play("0s wifi | 1s wifi:down:noaddress6", Self.both).last == """
        1s wifi>none, destroy sourceAddressLost wlan0 ipv6 2001:db8:258::7, \
        destroy interfaceLost wlan0, destroy categoryChanged
        """)
  }

  @Test("I9 an address comes before a family")
  func addressFirst() {
    #expect(
      Story.play("0s wifi | 1s wifi:noroute4:noaddress6", Self.both)[1] == """
        1s wifi>none, advise sourceAddressLost wlan0 ipv6 2001:db8:258::7, \
        advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged
        """)
  }

  @Test("I9 every change has its own generation, and the snapshot has the last one")
  func generations() {
    var story = Story(Self.both)
    story.play("0s wifi | 1s wifi:down:noaddress6 | 2s wifi | 3s wifi !link")
    #expect(story.changes.map(\.generation) == (1...9).map { UInt64($0) })
    #expect(story.maker.snapshot.generation == 9)
    var told = ConnectivitySnapshot(
      generation: 0, since: WallTime(microseconds: 0),
      status: ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4))
    for change in story.changes { told.apply(change) }
    #expect(told == story.maker.snapshot)
  }

  @Test("I9 all changes of one step have its time")
  func times() {
    var story = Story()
    story.play("0s wifi | 1s wifi:dead")
    #expect(
      story.changes.compactMap(\.invalidation?.time)
        == [1, 1, 2, 2].map { WallTime(microseconds: $0 * 1_000_000) })
  }
}

extension ConnectivityChange {
  var invalidation: Invalidation? {
    if case .invalidation(let invalidation) = self { invalidation } else { nil }
  }
}
