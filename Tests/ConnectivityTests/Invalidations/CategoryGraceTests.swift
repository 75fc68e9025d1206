import Testing

@testable import Connectivity

/// IPv4 is lost, and while its grace runs IPv6 makes a category that it did not make before.
@Suite("The grace of the category")
struct CategoryGraceTests {
  private static let both = AddressFamily.allCases
  private static let lost = ["0s unknown>wifi", "1s wifi>none, advise categoryChanged"]
  private static let byIPv6 =
    "0s wifi:noroute6 | 1s wifi:noroute | 1.5s wifi:noroute4"

  @Test("I5 I10 a category that another family brings back is in doubt until the path is back")
  func back() {
    #expect(
      Story.play("\(Self.byIPv6) | 1.8s wifi | 9s wifi", Self.both)
        == Self.lost + [
          "1.5s none>wifi, advise categoryChanged", "1.8s path, advise categoryChanged",
        ])
  }

  @Test("I5 I10 when the grace is over, what another family has brought back is kept")
  func overdue() {
    #expect(
      Story.play("\(Self.byIPv6) | 9s wifi", Self.both)
        == Self.lost + [
          "1.5s none>wifi, advise categoryChanged", "2s destroy interfaceLost wlan0 ipv4",
          "9s path",
        ])
    // It was lost long ago, with the channels that were on it then.
    #expect(
      Story.play(
        "0s wifi | 1s wifi:noroute4 | 10s wifi:noroute | 10.5s wifi:noroute6 | 19s wifi:noroute6",
        Self.both
      ).suffix(3) == [
        "10s wifi>none, advise categoryChanged", "10.5s none>wifi, advise categoryChanged",
        "11s destroy interfaceLost wlan0 ipv6",
      ])
  }

  @Test(
    "I5 I10 a flow whose own path was there all the time outlives what another family has replaced")
  func flow() {
    #expect(
      Story.follow("\(Self.byIPv6) | 9s wifi", Self.both, to: .through(3)) == [
        "1s advise categoryChanged", "1.5s advise categoryChanged", "2s advise categoryChanged",
      ])
    // What is looked at only when all of it is over.
    for end in [.returned, .replaced] as [FlowTracker.CategoryChange] {
      var late = FlowTracker.Circumstances(categoryChange: .inDoubt)
      late.join(.init(categoryChange: end))
      #expect(late.categoryChange == end)
    }
  }

  @Test("I5 I10 who lost his path dies when the grace is over, whatever brought the category back")
  func lostFlow() {
    #expect(
      Story.follow("\(Self.byIPv6) | 9s wifi", [.ipv6, .ipv4]).last == "2s destroy categoryChanged")
  }

  @Test("I5 I10 a category that another family brings back, and has kept, is back")
  func intact() {
    #expect(
      Story.play("0s wifi | 1s wifi:noroute | 1.5s wifi:noroute4", Self.both)
        == Self.lost + [
          "1.5s none>wifi, advise categoryChanged", "2s destroy interfaceLost wlan0 ipv4",
        ])
  }

  @Test("I5 another category destroys, also on a path that was kept")
  func otherCategory() {
    #expect(
      Story.play(
        "0s wifi:noroute6 cellular:noroute4 | 1s wifi:noroute cellular:noroute | "
          + "1.5s wifi:noroute cellular:noroute4", Self.both
      ).contains("1.5s none>cellular, destroy categoryChanged"))
  }
}
