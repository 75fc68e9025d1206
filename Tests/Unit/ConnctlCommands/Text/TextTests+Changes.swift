import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

/// Changes with their consequences, guesses and folded links.
extension TextTests {
  @Test("history: one line a change, with its cause and its consequences")
  func history() {
    expectLines(
      self.style.history([
        .transition(.sample), .invalidation(.sample), .invalidation(.everything),
      ]) + self.style.history([.invalidation(.sample), .invalidation(.sample)])
        + self.style.history([.transition(.started)]),
      """
      2026-11-21 01:25:00.123  wifi → none       carrier lost on wlan0 · to end:
                                                 connections on wlan0 (ipv4)
      2026-11-21 01:25:00.123  to end            connections on wlan0 (ipv4):
                                                 interface lost; carrier lost on wlan0
      2026-11-21 01:25:00.123  connd started     wifi via wlan0
      """)
  }

  @Test("watch: connd's start is not a change from unknown")
  func started() {
    expectLines(
      self.style.event(.change(.transition(.started)), now: .sample),
      "01:25:00.123  connd started     wifi via wlan0")
  }

  @Test("a change is red if traffic was lost, and not for its bookkeeping")
  func inks() {
    func ink(_ group: ConnectivityChange...) -> TextStyle? { FoldedChange(group)?.headline.ink }
    #expect(ink(.transition(.sample), .invalidation(.sample)) == .bad)
    #expect(ink(.invalidation(.sample)) == .bad)
    #expect(ink(.invalidation(.everything)) == .faint)
    #expect(ink(.path(.sample), .invalidation(.sample)) == nil)
    #expect(ink(.transition(.started), .invalidation(.everything)) == .good)
  }

  @Test("a path change names the path, and what it means for connections")
  func pathChange() {
    var drain = Invalidation.sample
    drain.severity = .drain
    drain.scope = .init(interface: "eth0")
    #expect(
      FoldedChange([.path(.sample), .invalidation(drain), .invalidation(drain)])?.details
        .replacing("\u{A0}", with: " ")
        == "ipv4 wlan0 from 192.0.2.7, ipv6 none: address added on wlan0 · to replace: connections on eth0"
    )
  }

  @Test(
    "an override has the same words in watch and history, with its user and what still applies",
    arguments: [
      ("expensiveSet", true, true, "metered on wlan0, by uid 4294967290"),
      ("expensiveSet", false, false, "not metered on wlan0, by uid 4294967290"),
      ("constrainedSet", false, true, "constrained on wlan0, by uid 4294967290"),
      ("choiceForgotten", false, false, "override removed on wlan0, by uid 4294967290"),
      (
        "choiceForgotten", false, true,
        "override removed on wlan0, by uid 4294967290; still constrained"
      ),
      ("choiceEnded", true, false, "override ended on wlan0; still metered"),
    ])
  func overrides(
    change: String, isMetered: Bool, isConstrained: Bool, words: String
  ) {
    var status = ConnectivityStatus.sample
    (status.ipv4.costsMoney, status.ipv4.constraint) = (
      isMetered, isConstrained ? .constrained : .unconstrained
    )
    let user = change == "choiceEnded" ? nil : "uid 4294967290"
    let cause = ChangeCause(.user, change, message: user, interface: "wlan0")
    let set = ConnectivityChange.path(
      ConnectivityChange.PathChange(cause: cause, time: .sample, snapshot: .sample(20, status)))
    let style = Style.plain(width: .max)
    #expect(style.history([set]) == ["2026-11-21 01:25:00.123  cost              \(words)"])
    #expect(
      style.event(.change(set), now: .sample) == ["01:25:00.123  cost              \(words)"])
  }

  @Test("an invalidation has the same words in watch, history and connections")
  func consequences() {
    #expect(Invalidation.Severity.allCases.map(\.text) == ["to end", "to replace", "in doubt"])
    #expect(ConnectionVerdict.willNotSurvive.text == "to replace")
    #expect(ConnectionVerdict.inDoubt.text == "in doubt")
  }

  @Test("a guessed link is marked in every view")
  func guesses() {
    var path = KernelPath.stack
    path.guessedLinks = 1
    #expect(path.chainText.replacing("\u{A0}", with: " ") == "vlan10 over bond0 maybe over eth0")
    #expect(
      path.route?.replacing("\u{A0}", with: " ").hasPrefix("over bond0 maybe over eth0 from")
        == true)
    #expect(
      PathDiagram(path, links: []).stations.prefix(4) == ["host", "vlan10", "bond0", "eth0?"])
  }

  @Test("virtual ports of a bridge fold behind it, unless a default path uses them")
  func ports() {
    func port(_ name: String, _ kind: String? = "veth", master: String? = "docker0")
      -> Connectivity_V1_Link
    {
      var link = Connectivity_V1_Link.stacked(name, kind: kind)
      if let master { link.master = master }
      return link
    }
    var bridge = Connectivity_V1_Link.stacked("docker0", kind: "bridge")
    bridge.addresses = ["172.17.0.1/16"]
    var used = port("veth3")
    used.defaultIpv4 = true
    let links = [
      bridge, port("veth1"), port("veth2"), used, port("eth1", nil), port("veth4", master: nil),
      port("eth2", "dsa", master: "bond0"),
    ]
    func names(_ lines: [String]) -> [String] {
      lines.dropFirst().map { String($0.prefix { $0 != " " }) }
    }
    let folded = self.style.links(links)
    #expect(names(folded) == ["docker0", "veth3", "eth1", "veth4", "eth2"])
    #expect(folded[1].hasSuffix("172.17.0.1/16 2 ports"))
    #expect(names(self.style.links(links, isComplete: true)).count == links.count)
  }
}
