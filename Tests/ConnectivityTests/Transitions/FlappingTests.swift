import Testing

@testable import Connectivity

@Suite("Flapping links")
struct FlappingTests {
  /// A link that is lost at each of the instants, and is there again 100 ms later.
  private static func losses(at instants: [Double], of link: String = "wifi") -> String {
    (["0s \(link)"] + instants.map { "\($0)s - | \(($0 * 10 + 1).rounded() / 10)s \(link)" })
      .joined(separator: " | ")
  }

  /// When the gains of `losses` were published.
  private static func gains(_ script: String) -> [String] {
    Timeline.play(script).split(separator: "|").map { $0.trimmingSpaces }
      .filter { $0.hasSuffix("none>wifi") }.map { String($0.prefix { $0 != " " }) }
  }

  @Test("T1 losses and gains are published at once")
  func atOnce() {
    #expect(
      Timeline.play("0s wifi | 1s - | 1.2s wifi | 2s - | 2.001s wired")
        == "0s unknown>wifi | 1s wifi>none | 1.2s none>wifi | 2s wifi>none | 2.001s none>wired")
  }

  @Test("T1 from the third loss on gains are held for 0.5, 1, 2, 4, 5 and 5 seconds")
  func holds() {
    #expect(
      Self.gains(Self.losses(at: [1, 2, 3, 4, 6, 9, 14, 20]))
        == ["1.1s", "2.1s", "3.6s", "5.1s", "8.1s", "13.1s", "19.1s", "25.1s"])
  }

  @Test(
    "T1 the third loss counts within ten seconds",
    arguments: [
      ([1, 5, 11], ["1.1s", "5.1s", "11.6s"]),
      ([1, 5, 11.2], ["1.1s", "5.1s", "11.3s"]),
      ([1, 5, 11.2, 12], ["1.1s", "5.1s", "11.3s", "12.6s"]),
    ])
  func window(instants: [Double], gains: [String]) {
    #expect(Self.gains(Self.losses(at: instants)) == gains)
  }

  @Test(
    "T1 ten seconds without a loss forget it",
    arguments: [
      ([1, 2, 3, 12.9], ["1.1s", "2.1s", "3.6s", "14s"]),
      ([1, 2, 3, 13], ["1.1s", "2.1s", "3.6s", "13.1s"]),
    ])
  func forgetting(instants: [Double], gains: [String]) {
    #expect(Self.gains(Self.losses(at: instants)) == gains)
  }

  @Test("T1 a gain that comes ten seconds after the last loss is not held")
  func lateGain() {
    let flapping = Self.losses(at: [1, 2])
    #expect(Self.gains(flapping + " | 3s - | 12.9s wifi").last == "13.4s")
    #expect(Self.gains(flapping + " | 3s - | 13s wifi").last == "13s")
  }

  @Test("T1 a loss is never held back, also while a gain is")
  func lossDuringHold() {
    #expect(
      Timeline.play(Self.losses(at: [1, 2, 3]) + " | 3.2s wifi~ | 3.4s wifi")
        == """
        0s unknown>wifi | 1s wifi>none | 1.1s none>wifi | 2s wifi>none | 2.1s none>wifi \
        | 3s wifi>none | 3.2s path | 4.4s none>wifi
        """)
  }

  @Test("T1 a held gain that is lost counts as a loss, and the hold starts anew")
  func heldGainLost() {
    #expect(Self.gains(Self.losses(at: [1, 2, 3, 3.2, 3.4])).last == "5.5s")
  }

  @Test("T1 another link than the one that flaps is not held", arguments: ["wired", "wifi2"])
  func otherLink(link: String) {
    let category = link == "wired" ? "wired" : "wifi"
    let published = Timeline.play(Self.losses(at: [1, 2, 3]) + " | 3.2s \(link)")
    #expect(published.hasSuffix("3s wifi>none | 3.2s none>\(category)"))
  }

  @Test("T1 back on the flapping link during a hold, the hold starts from there")
  func otherLinkDead() {
    let published = Timeline.play(Self.losses(at: [1, 2, 3]) + " | 3.3s wired~ | 3.4s wifi")
    #expect(published.hasSuffix("3s wifi>none | 3.3s path | 4.4s none>wifi"))
  }

  @Test("T1 a path that another link takes over without a break is not held")
  func takenOver() {
    let published = Timeline.play(Self.losses(at: [1, 2, 3]) + " | 4s wired | 4.1s wifi")
    #expect(published.hasSuffix("3.6s none>wifi | 4s wifi>wired | 4.1s wired>wifi"))
  }

  @Test("T1 a bounce of a flapping link publishes the loss at once and holds the gain")
  func flappingBounce() {
    #expect(
      Timeline.play("0s wifi | 1s wifi! | 2s wifi!link | 3s wifi!route | 3.1s wifi!")
        == """
        0s unknown>wifi | 1s wifi>wifi bounced | 2s wifi>wifi bounced | 3s wifi>none \
        | 4.1s none>wifi
        """)
  }

  @Test("T1 a flapping link's path says so while a bounce is held")
  func flappingReason() {
    var timeline = Timeline()
    timeline.play("0s wifi | 1s wifi! | 2s wifi! | 3s wifi!")
    let statuses = timeline.changes.suffix(2).compactMap(\.snapshot?.status)
    #expect(statuses.map(\.ipv4.reason) == [.flapping, nil])
    #expect(statuses.map(\.interface) == ["wlan0", "wlan0"])
  }

  @Test("T1 a dual stack that is lost twice has not flapped")
  func dualStack() {
    #expect(
      Timeline.play("0s wifi / wifi | 1s - | 1.1s wifi / wifi | 2s - | 2.1s wifi / wifi")
        == "0s unknown>wifi | 1s wifi>none | 1.1s none>wifi | 2s wifi>none | 2.1s none>wifi")
  }

  @Test("T1 the link flaps for both families, whichever has shown it")
  func otherFamily() {
    let flapping = "0s wifi / wifi | 1s - | 1.1s wifi | 2s - | 2.1s wifi | 3s - | 3.1s wifi"
    #expect(
      Timeline.play(flapping + " / wifi | 3.4s wifi / wifi").hasSuffix(
        "3s wifi>none | 3.6s none>wifi")
    )
  }

  @Test("T1 a family on another link carries on while the flapping one is held")
  func heldBesideAnother() {
    #expect(
      Timeline.play("0s wifi / wired | 1s wifi! / wired | 2s wifi! / wired | 3s wifi! / wired")
        == """
        0s unknown>wifi | 1s wifi>wifi bounced | 2s wifi>wifi bounced | 3s wifi>wired \
        | 3.5s wired>wifi
        """)
  }

  @Test("T1 what changes of a path whose gain is held comes with the gain")
  func heldChange() {
    var timeline = Timeline()
    timeline.play(Self.losses(at: [1, 2, 3]) + " | 3.3s wifi'")
    #expect(timeline.published.last == "3.6s none>wifi")
    #expect(
      timeline.maker.snapshot.status.ipv4.source
        == TestLink.wifi.with { $0.host[.ipv4] = 8 }.source(.ipv4))
  }

  @Test("T1 the loss that counts during a hold is that of the path as it is by then")
  func heldChangeLost() {
    #expect(Self.gains(Self.losses(at: [1, 2, 3]) + " | 3.2s wifi' | 3.3s wifi'!").last == "4.3s")
    #expect(
      Self.gains(Self.losses(at: [1, 2, 3]) + " | 3.2s wifi' | 3.3s wifi' +noise").last == "3.6s")
  }

  @Test("T1 a timer that comes early, or a second one, changes nothing")
  func earlyTimer() {
    var maker = TransitionMaker()
    let wifi = Observation(
      ipv4: TestLink.wifi.observed(.ipv4) ?? ObservedPath(.unknown),
      ipv6: ObservedPath(.unsatisfied(.noRoute)))
    func update(_ observation: Observation, _ occasion: Occasion, _ at: Int) -> TransitionMaker.Step
    {
      maker.update(
        to: observation, on: occasion, at: Instant(milliseconds: at),
        time: Timestamp(microseconds: 0))
    }
    _ = update(wifi, .start, 0)
    for second in 1...3 {
      _ = update(Observation([]), .events([]), second * 1000)
      _ = update(wifi, .events([]), second * 1000 + 100)
    }
    let due = Instant(milliseconds: 3600)
    #expect(update(wifi, .timer, 3599) == TransitionMaker.Step(change: nil, deadline: due))
    #expect(update(wifi, .timer, 3600).change != nil)
    #expect(update(wifi, .timer, 3601) == TransitionMaker.Step(change: nil, deadline: nil))
  }

  @Test("K8 a kernel that cannot be asked is no loss of the link's, and its return no gain")
  func kernelLost() {
    #expect(
      Timeline.play(
        "0s wifi | 1s ? | 1.1s wifi | 2s ? | 2.1s wifi | 3s ? | 3.1s wifi | 4s - | 4.1s wifi")
          == """
          0s unknown>wifi | 1s wifi>unknown | 1.1s unknown>wifi | 2s wifi>unknown \
          | 2.1s unknown>wifi | 3s wifi>unknown | 3.1s unknown>wifi | 4s wifi>none | 4.1s none>wifi
          """)
  }

  @Test("K8 a kernel lost during a hold is unknown at once, and asked again it is believed at once")
  func kernelLostDuringHold() {
    let published = Timeline.play(Self.losses(at: [1, 2, 3]) + " | 3.2s ? | 3.3s wifi")
    #expect(published.hasSuffix("3s wifi>none | 3.2s none>unknown | 3.3s unknown>wifi"))
  }
}

extension Substring {
  fileprivate var trimmingSpaces: String {
    String(self.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }
}
