import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("Text output")
struct TextTests {
  let style = Style.plain()

  @Test("status")
  func status() {
    expectLines(
      self.style.status(.sample, now: .sample.adding(seconds: 185)),
      """
      wifi via wlan0 (since 3 min)
        ipv4  satisfied  wlan0  from 192.0.2.7 via 192.0.2.1
        ipv6  none
      """)
    // On a machine without IPv6 nothing is wrong, so nothing is red.
    let coloured = Style.plain(color: true).status(.sample, now: .sample)
    #expect(!coloured.joined().contains("\u{1B}[31m"))
  }

  @Test("status without a network gives the reason, even if a path names its link")
  func offline() {
    expectLines(
      self.style.status(.sample(1, .offline), now: .sample),
      """
      none: wlan0 has no carrier (since 0 s)
        ipv4  requires connection  wlan0  no carrier, from 192.0.2.7 via 192.0.2.1
        ipv6  unsatisfied          no route
      """)
    var status = ConnectivityStatus(
      ipv4: .unsatisfied(.noRoute), ipv6: .unsatisfied(.prohibited), preferred: .ipv4)
    #expect(status.summary == "none: no route")
    status.ipv6 = KernelPath(
      status: .requiresConnection, reason: .noSourceAddress, chain: KernelPath.wlan.chain,
      medium: .wifi)
    #expect(status.summary == "none: wlan0 has no usable source address")
  }

  @Test("status with long addresses wraps between words")
  func longStatus() {
    let status = ConnectivityStatus(
      ipv4: .unsatisfied(.unreachable), ipv6: .stack, preferred: .ipv4)
    expectLines(
      self.style.status(.sample(1, status), now: .sample),
      """
      wired via vlan10, metered (since 0 s)
        ipv4  unsatisfied  an unreachable route
        ipv6  satisfied    vlan10  over bond0 over eth0
                                   from 2001:db8:1111:2222:3333:4444:5555:6666
                                   via fe80::1234:5678:9abc:def0
      """)
  }

  @Test("K8 status when the kernel cannot be asked")
  func unknown() {
    let status = ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4)
    expectLines(
      self.style.status(.sample(1, status), now: .sample.adding(seconds: -5)),
      """
      unknown (since 0 s): assume online
        ipv4  unknown  the kernel cannot be queried
        ipv6  unknown  the kernel cannot be queried
      """)
  }

  @Test("path")
  func path() {
    expectLines(
      self.style.path(.stack, to: "2001:db8::1")
        + self.style.path(.unsatisfied(.noRoute), to: "192.0.2.9"),
      """
      2001:db8::1  satisfied
        link     vlan10 over bond0 over eth0
        medium   wired, metered
        source   2001:db8:1111:2222:3333:4444:5555:6666
        gateway  fe80::1234:5678:9abc:def0
        table    254 (main)
      192.0.2.9  unsatisfied: no route
      """)
  }

  @Test("watch")
  func watch() {
    let events: [StatusEvent] = [
      .snapshot(.sample), .change(.transition(.sample)), .change(.transition(.bounce)),
      .change(.path(.sample)), .change(.invalidation(.sample)),
      .change(.invalidation(.everything)), .gap(.sample), .resumed(after: 1),
    ]
    expectLines(
      events.flatMap { self.style.event($0, now: .sample) },
      """
      01:25:00.123  now               wifi via wlan0
      01:25:00.123  wifi → none       carrier lost on wlan0 (RTM_NEWLINK)
      01:25:00.123  wifi bounced      via wlan0: read again, learnt late
      01:25:00.123  path              ipv4 wlan0 from 192.0.2.7, ipv6 none: address
                                      added on wlan0 (RTM_NEWADDR)
      01:25:00.123  to end            connections on wlan0 (ipv4): interface lost
      01:25:00.123  in doubt          all connections: category changed
      01:25:00.123  gap               changes were missed; now wifi via wlan0
      """)
  }

  @Test("guard")
  func flow() throws {
    let remote = try #require(IPAddress("192.0.2.80"))
    let events: [FlowEvent] = [
      .path(.wlan), .path(.unsatisfied(.noRoute)), .path(ConnectivityStatus.offline.ipv4),
      .invalidation(.sample),
    ]
    expectLines(
      events.flatMap { self.style.flow($0, destination: remote, now: .sample) },
      """
      01:25:00.123  path              192.0.2.80: satisfied, wlan0 from 192.0.2.7
                                      via 192.0.2.1
      01:25:00.123  path              192.0.2.80: unsatisfied: no route
      01:25:00.123  path              192.0.2.80: requires connection: wlan0 has no
                                      carrier
      01:25:00.123  to end            interface lost: carrier lost on wlan0
                                      (RTM_NEWLINK); now unsatisfied: no route
      """)
  }

  @Test("the connections of a scope, in words")
  func scopes() {
    let one = IPAddress("192.0.2.7")
    let two = IPAddress("192.0.2.8")
    let scopes: [Invalidation.Scope] = [
      .everything, .init(family: .ipv6), .init(interface: "wlan0"),
      .init(interface: "wlan0", localAddresses: [one, two].compactMap { $0 }),
      .init(
        family: .ipv4, localAddresses: [one].compactMap { $0 },
        destination: two.map { .address($0) }),
    ]
    #expect(
      scopes.map { $0.text.replacing("\u{A0}", with: " ") } == [
        "all connections", "all connections (ipv6)", "connections on wlan0",
        "connections from 192.0.2.7, 192.0.2.8 on wlan0",
        "connections to 192.0.2.8 from 192.0.2.7 (ipv4)",
      ])
  }

  @Test(
    "links form a tree with lower links below their users, and a looped stack ends"
  )
  func tree() {
    func link(_ name: String, master: String? = nil, lower: String? = nil) -> Connectivity_V1_Link {
      var link = Connectivity_V1_Link.stacked(name)
      if let master { link.master = master }
      if let lower { link.lower = lower }
      return link
    }
    func names(_ links: Connectivity_V1_Link...) -> [String] {
      LinkTree(links).rows.map { $0.branch + $0.link.name }
    }
    #expect(
      names(
        link("vlan10", lower: "bond0"), link("eth0", master: "bond0"), link("lo"),
        link("bond0", lower: "eth0"), link("eth1", master: "bond0"), link("vlan20", lower: "bond0"))
        == [
          "vlan10", "└─bond0", "  ├─eth0", "  └─eth1", "lo", "vlan20", "└─bond0", "  ├─eth0",
          "  └─eth1",
        ])
    #expect(names(link("a", lower: "b"), link("b", lower: "a")) == ["a", "└─b", "b", "└─a"])
    #expect(names(link("a", lower: "gone"), link("b", master: "gone")) == ["a", "b"])
  }

  @Test("links")
  func links() {
    expectLines(
      self.style.links([.wlan, .docker, .ppp, .usb]),
      """
      LINK     KIND    MEDIUM    STATE       DEFAULT    ADDRESSES
      wlan0            wifi      up          ipv4 ipv6  192.0.2.7/24
                                             2001:db8:1111:2222:3333:4444:5555:6666/64
                                             metered "Free \\xe9?Wi-Fi" -52 dBm
      docker0  bridge  -         no carrier             172.17.0.1/16
      ppp0     ppp     cellular  up                     4G roaming suspended signal
                                                        67%
      usb0             wired     up                     maybe via phone
      """)
    expectLines(
      self.style.links([.usb]),
      """
      LINK  MEDIUM  STATE  ADDRESSES
      usb0  wired   up     maybe via phone
      """)
    #expect(Connectivity_V1_Link.ppp.text == "ppp0, ppp, up, 4G, roaming, suspended, signal 67%")
    #expect(Connectivity_V1_Link.usb.text == "usb0, up, maybe via phone")
  }

  @Test("K7 a unique local source address is marked, and explained for destinations outside")
  func uniqueLocal() throws {
    var path = KernelPath.stack
    path.source = IPAddress("fd00::7")
    let status = ConnectivityStatus(ipv4: .unsatisfied(.noRoute), ipv6: path, preferred: .ipv4)
    let lines = self.style.status(.sample(1, status), now: .sample)
    #expect(lines.contains { $0.hasSuffix(", local addresses only") })
    func source(to destination: String) throws -> String? {
      var explanation = Connectivity_V1_Explanation.sample
      explanation.path = Connectivity_V1_Path(path)
      explanation.destination = destination
      return try Style.plain(width: .max).explanation(explanation, host: nil)
        .first { $0.contains("fd00::7") }
    }
    #expect(
      try source(to: "2001:db8:9::1")
        == "  source    fd00::7, a local address: answers arrive only if a router translates it "
        + "(NPTv6, NAT66)")
    #expect(try source(to: "fd99::1") == "  source    fd00::7")
  }

  @Test("explain goes from the rule to the category")
  func explain() throws {
    expectLines(
      try self.style.explanation(.sample, host: nil),
      """
      Traffic leaves by vlan10 (wired), the only link with a route.
      the internet, by probing 1.1.1.1
        rule      32766: from all
        table     254 (main)
        route     0.0.0.0/0 (default), metric 600
        gateway   fe80::1234:5678:9abc:def0
        source    2001:db8:1111:2222:3333:4444:5555:6666
        link      vlan10, vlan, up
        below     bond0, bond, up
        below     eth0, up
        path      satisfied, metered
        medium    wired: the hardware type of eth0 says “ether”
        flags     reachable
        category  wired
        probes    1.1.1.1: vlan10 via 192.0.2.1
                  9.9.9.9: no route (outvoted)
      """)
    var guessed = Connectivity_V1_Explanation.sample
    guessed.path.guessedLinks = 1
    for (way, words) in [
      ("fwmark 0xca6c", "with fwmark 0xca6c"), ("default", "without the tunnel"),
    ] {
      guessed.guessedBy = way
      #expect(
        try self.style.explanation(guessed, host: nil).contains(
          "  guess     eth0, the default route \(words)"))
    }
    guessed.diversions = ["a rule matches a mark, which netfilter may set"]
    #expect(
      try self.style.explanation(guessed, host: nil).contains(
        "  but       a rule matches a mark, which netfilter may set"))
    #expect(
      try self.style.explanation(.sample, host: "one.example")[1] == "one.example, 1.1.1.1")
    #expect(try self.style.explanation(.sample, host: "1.1.1.1")[1] == "1.1.1.1")
  }

  @Test("a new flow that cannot be viable is not reported as having died before")
  func obstacles() throws {
    let remote = try #require(IPAddress("192.0.2.80"))
    let local = try #require(IPAddress("198.51.100.7"))
    func line(
      _ reason: Invalidation.Reason, _ path: KernelPath, isNew: Bool = true,
      change: String = "diedBefore"
    ) -> String? {
      let invalidation = InvalidationError(
        reason: reason, severity: .destroy,
        cause: ChangeCause(.registration, change, interface: "wlan0", learntLate: true), path: path)
      let lines = Style.plain(width: .max).flow(
        .invalidation(invalidation), destination: remote, isNew: isNew, local: local, now: .sample)
      return lines.first?.dropFirst(32).description
    }
    var costly = KernelPath.wlan
    costly.gateway = nil
    costly.costsMoney = true
    #expect(
      line(.policy, costly)
        == "policy: the path is metered; now satisfied, wlan0 from 192.0.2.7, metered")
    costly.constraint = .constrained
    #expect(
      line(.policy, costly)?.hasPrefix("policy: the path is metered and constrained;") == true)
    costly.costsMoney = false
    #expect(line(.policy, costly)?.hasPrefix("policy: the path is constrained;") == true)
    let off = KernelPath.unsatisfied(.noRoute)
    #expect(
      line(.sourceAddressLost, off)
        == "source address lost: 198.51.100.7 is not an address of this machine; now unsatisfied: no route"
    )
    #expect(
      line(.betterPath, off)
        == "better path: 198.51.100.7 is not an address of wlan0; now unsatisfied: no route")
    // A flow that was reported before has lived, and another cause is an event that happened.
    let died = "died before on wlan0, learnt late; now unsatisfied: no route"
    #expect(line(.sourceAddressLost, off, isNew: false) == "source address lost: \(died)")
    #expect(line(.interfaceLost, off) == "interface lost: \(died)")
    #expect(
      line(.sourceAddressLost, off, change: "resumed")
        == "source address lost: resumed on wlan0, learnt late; now unsatisfied: no route")
  }

  @Test(
    "ages",
    arguments: [
      (0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h"),
      (172_799, "47 h"), (172_800, "2 d"), (-3, "0 s"),
    ] as [(Int64, String)])
  func ages(seconds: Int64, words: String) {
    #expect(Duration.seconds(seconds).text == words)
  }
}
