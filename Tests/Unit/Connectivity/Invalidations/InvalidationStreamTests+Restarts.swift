import Connectivity
import Testing

@testable import ConnectivityRules

/// After a sleep, a restart, or a time in which the kernel could not be asked.
extension InvalidationStreamTests {
  @Test("I6 a short sleep advises everything, a long one destroys it")
  func slept() {
    #expect(
      Story.play("0s wifi | 9s slept:10s wifi | 999s slept:300s wifi") == [
        "0s unknown>wifi", "9s advise resumed", "999s destroy resumed",
      ])
  }

  @Test("I6 I9 sleep + category change → one invalidation, with the higher severity")
  func sleptAndChanged() {
    #expect(
      Story.play("0s wifi cellular | 9s slept:5s cellular").last == """
        9s wifi>cellular, destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), \
        destroy categoryChanged
        """)
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s slept:300s wifi").last
        == "1.5s none>wifi, destroy categoryChanged")
  }

  @Test("I6 I9 a sleep during which one family lost its route → both are reported")
  func sleptAndLost() {
    #expect(
      Story.play("0s wifi | 1s slept:5s wifi:noroute6 | 1.5s wifi", Self.both) == [
        "0s unknown>wifi", "1s path, advise interfaceLost wlan0 ipv6 offLink, advise resumed",
        "1.5s path",
      ])
  }

  @Test("I7 the first reading is compared with what an earlier run published, on any medium")
  func restarted() {
    for link in ["wifi", "wired", "cellular"] {
      var first = Story(Self.both)
      first.play("0s \(link)")
      let snapshot = first.maker.snapshot
      #expect(Story.play("9s \(link) | 10s \(link)", Self.both, restored: snapshot) == [])
    }
  }

  @Test("I7 a change found after a restart is marked as learnt late")
  func restartedElsewhere() {
    var first = Story()
    first.play("0s wifi wired:noroute")
    for (script, expected) in [
      (
        "9s wifi wired",
        ["9s wifi>wired, destroy betterPath wlan0 ipv4, destroy categoryChanged"]
      ),
      ("9s wifi:host8", ["9s path, destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress)"]),
      (
        "9s wifi:noroute",
        [
          "9s wifi>none, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
          "10s destroy interfaceLost wlan0 ipv4 offLink, destroy categoryChanged",
        ]
      ),
      (
        "9s wifi:noroute | 9.5s wifi",
        [
          "9s wifi>none, advise interfaceLost wlan0 ipv4 offLink, advise categoryChanged",
          "9.5s none>wifi, advise categoryChanged",
        ]
      ),
    ] {
      var second = Story(restored: first.maker.snapshot)
      second.play(script)
      #expect(second.published == expected)
      let causes = second.changes.compactMap(\.invalidation?.cause)
      #expect(causes.first == ChangeCause(.start, "started", learntLate: true))
    }
  }

  @Test("I7 K8 a restart while the kernel cannot be asked forgets nothing")
  func restartedBlind() {
    var first = Story()
    first.play("0s wifi wired:noroute")
    #expect(
      Story.play("8s ? | 9s wifi wired", restored: first.maker.snapshot).last
        == "9s unknown>wired, destroy betterPath wlan0 ipv4, destroy categoryChanged")
    #expect(
      Story.play("8s ? | 9s wifi", restored: first.maker.snapshot)
        == ["8s wifi>unknown", "9s unknown>wifi"])
  }

  @Test("I7 an overrun invalidates nothing by itself")
  func overrun() {
    #expect(Story.play("0s wifi | 1s wifi +overrun") == ["0s unknown>wifi"])
  }

  @Test("K8 the kernel cannot be asked in between → nothing is invalidated")
  func unknown() {
    #expect(
      Story.play("0s wifi | 1s ? | 9s wifi | 10s ? | 11s ? | 12s wifi") == [
        "0s unknown>wifi", "1s wifi>unknown", "9s unknown>wifi", "10s wifi>unknown",
        "12s unknown>wifi",
      ])
  }

  @Test("K8 a change while the kernel could not be asked is reported afterwards")
  func changedWhileUnknown() {
    #expect(
      Story.play("0s wifi | 1s ? | 9s wired").last == """
        9s unknown>wired, destroy sourceAddressLost wlan0 ipv4 \(Self.wifiAddress), \
        destroy categoryChanged
        """)
    #expect(
      Story.play("0s wifi:lost1 | 1s ? | 9s wifi:lost2:router2").last
        == "9s unknown>wifi, destroy networkChanged wlan0 ipv4")
    #expect(
      Story.play("0s wifi:noroute | 1s ? | 9s wifi").last
        == "9s unknown>wifi, destroy categoryChanged")
  }
}
