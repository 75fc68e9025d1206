import Connectivity
import Testing

@testable import ConnectivityRules

/// Publication of flapping links. `FlapDamperTests` covers the length of each hold.
@Suite("Flapping links")
struct FlappingTests {
  /// The transitions and path changes of a story.
  private static func play(
    _ script: String, _ families: [AddressFamily] = [.ipv4]
  ) -> [String] {
    Story.play(script, families).map { String($0.prefix { $0 != "," }) }
      .filter { $0.contains(">") || $0.hasSuffix("path") }
  }

  /// A link that loses its carrier at each of the instants, and regains it 100 ms later.
  private static func losses(at instants: [Double], of link: String = "wired") -> String {
    (["0s \(link)"]
      + instants.map { "\($0)s \(link):dead | \(($0 * 10 + 1).rounded() / 10)s \(link)" })
      .joined(separator: " | ")
  }

  private static let flapping = losses(at: [1, 2, 3])

  @Test("T1 losses and gains are published immediately")
  func atOnce() {
    #expect(
      Self.play("0s wired | 1s wired:dead | 1.2s wired | 2s wired:dead | 2.001s wifi") == [
        "0s unknown>wired", "1s wired>none", "1.2s none>wired", "2s wired>none", "2.001s none>wifi",
      ])
  }

  @Test("T1 from the third loss on, gains are held, for 0.25 s doubling to at most 1 s")
  func holds() {
    #expect(
      Self.play(Self.losses(at: [1, 2, 3, 4, 6, 9])).filter { $0.hasSuffix("none>wired") } == [
        "1.1s none>wired", "2.1s none>wired", "3.35s none>wired", "4.6s none>wired",
        "7.1s none>wired", "10.1s none>wired",
      ])
  }

  @Test("T1 a loss is never held back, even while a gain is")
  func lossDuringHold() {
    #expect(
      Self.play("\(Self.flapping) | 3.2s wired:dead | 3.4s wired").suffix(5) == [
        "3s wired>none", "3.1s path", "3.2s path", "3.4s path", "3.9s none>wired",
      ])
    // During the hold another link was published, and that one is lost.
    #expect(
      Self.play("\(Self.flapping) wifi | 3.2s wired wifi:noroute").suffix(3) == [
        "3.1s none>wifi", "3.2s wifi>none", "3.35s none>wired",
      ])
  }

  @Test(
    "T1 addresses and routes that come and go are not flaps",
    arguments: ["noroute", "noaddress", "noroute:noaddress"])
  func noFlaps(what: String) {
    let script =
      "0s wifi" + (1...5).map { " | \($0)s wifi:\(what) | \($0).1s wifi" }.joined()
    #expect(
      Self.play(script)
        == ["0s unknown>wifi"]
        + (1...5).flatMap { ["\($0)s wifi>none", "\($0).1s none>wifi"] })
  }

  @Test(
    "T1 messages about addresses and routes alone are not flaps", arguments: ["!route", "!address"])
  func noFlapsOfMessages(message: String) {
    let script = "0s wifi" + (1...5).map { " | \($0)s wifi \(message)" }.joined()
    #expect(
      Self.play(script) == ["0s unknown>wifi"] + (1...5).map { "\($0)s wifi>wifi bounced" })
  }

  @Test("T1 a link that does not flap is not held", arguments: ["wifi", "cellular"])
  func otherLink(link: String) {
    #expect(
      Self.play("\(Self.flapping) | 3.2s wired:noroute \(link)").last == "3.2s none>\(link)")
  }

  @Test("T1 while a gain is held, the best path without it is published")
  func besideHeld() {
    let script =
      "0s wired wifi cellular"
      + (1...3).map {
        " | \($0)s wired:dead:noroute wifi cellular | \($0).1s wired wifi cellular"
      }.joined()
    #expect(
      Self.play(script).suffix(3) == ["2.1s wifi>wired", "3s wired>wifi", "3.35s wifi>wired"])
    #expect(
      Self.play("\(script) | 3.2s wired wifi:noroute cellular").suffix(2)
        == ["3.2s wifi>cellular", "3.35s cellular>wired"])
  }

  @Test("T1 a bounce of a flapping link → the loss is published immediately, and the gain is held")
  func flappingBounce() {
    #expect(
      Self.play("0s wifi | 1s wifi !link | 2s wifi !link | 3s wifi !link") == [
        "0s unknown>wifi", "1s wifi>wifi bounced", "2s wifi>wifi bounced", "3s wifi>none",
        "3.25s none>wifi",
      ])
  }

  @Test("T1 T2 merged losses count by the kernel's counter")
  func merged() {
    #expect(
      Self.play("0s wifi:lost1 | 1s wifi:lost2 | 2s wifi:lost3").last == "2s wifi>wifi bounced")
    #expect(
      Self.play("0s wifi:lost2 | 1s wifi:lost5").suffix(2) == ["1s wifi>none", "1.25s none>wifi"])
  }

  @Test("T1 while its gain is held, a path has the reason flapping")
  func flappingReason() {
    var story = Story()
    story.play("0s wifi | 1s wifi !link | 2s wifi !link | 3s wifi !link")
    let statuses = story.changes.compactMap(\.snapshot?.status).suffix(2)
    #expect(statuses.map(\.ipv4.reason) == [.flapping, nil])
    #expect(statuses.map(\.interface) == ["wlan0", "wlan0"])
  }

  @Test("T1 a dual-stack link flaps after three losses, not after two")
  func dualStack() {
    let twice = Self.losses(at: [1, 2])
    #expect(Self.play(twice, AddressFamily.allCases).last == "2.1s none>wired")
    #expect(Self.play(Self.flapping, AddressFamily.allCases).last == "3.35s none>wired")
  }

  @Test("T1 a link flaps for both families, whichever showed the losses")
  func otherFamily() {
    var story = Story(AddressFamily.allCases)
    story.play(
      "0s wired:noroute6" + (1...3).map { " | \($0)s wired:dead | \($0).1s wired" }.joined())
    let statuses = story.changes.compactMap(\.snapshot?.status).suffix(2)
    #expect(statuses.map(\.ipv6.reason) == [.flapping, nil])
    #expect(statuses.map(\.ipv4.reason) == [.flapping, nil])
  }

  @Test("T1 a family on another link continues while the flapping one is held")
  func heldBesideAnother() {
    let script =
      "0s wired:noroute6 wifi:noroute4"
      + (1...3).map { " | \($0)s wired:noroute6 wifi:noroute4 !link" }.joined()
    #expect(
      Self.play(script, AddressFamily.allCases).suffix(2)
        == ["3s wired>wifi", "3.25s wifi>wired"])
  }

  @Test("T1 a link that is recreated again and again flaps by its name")
  func remade() {
    let script = "0s wifi" + (1...3).map { " | \($0)s | \($0).1s wifi:index9" }.joined()
    #expect(Self.play(script).suffix(2) == ["3.1s path", "3.35s none>wifi"])
  }

  @Test("K8 a kernel that cannot be asked is not a loss of the link, and its return is not a gain")
  func kernelLost() {
    let script = "0s wifi" + (1...4).map { " | \($0)s ? | \($0).1s wifi" }.joined()
    #expect(
      Self.play("\(script) | 5s wifi:dead | 5.1s wifi").suffix(2)
        == ["5s wifi>none", "5.1s none>wifi"])
  }

  @Test(
    "K8 the kernel is lost during a hold → unknown immediately, and the hold continues on its return"
  )
  func kernelLostDuringHold() {
    #expect(
      Self.play("\(Self.flapping) | 3.2s ? | 3.3s wired").suffix(3)
        == ["3.2s none>unknown", "3.3s unknown>none", "3.35s none>wired"])
    #expect(
      Self.play("\(Self.flapping) | 3.2s ? | 4s wired").suffix(2)
        == ["3.2s none>unknown", "4s unknown>wired"])
  }
}
