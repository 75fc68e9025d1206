import Glibc
import TestKit
import TestTraits
import Testing

/// Connections that netfilter sends elsewhere than their lookup says, whatever their pauses (E0,
/// E1): no change of the lookup's link ends one that lives.
@Suite("Diverted connections", .needsNamespaces, .blocking, .needsAll("three minutes"))
struct DiversionsScenario {
  enum Diversion: String, CaseIterable, Sendable {
    case redirect, pod, mark, farMark, proxy
  }

  enum Change: String, CaseIterable, Sendable {
    case cable, wifi, betterPath
    /// connd runs 0.4 s late.
    case cableWhileStopped
  }

  /// The pauses between messages, in milliseconds. `nil` is an idle connection.
  private static let gaps: [Int?] = [20, 50, 100, 200, 500, 900, 3000, nil]
  private static let service = "10.96.0.1"

  /// A host with one default route, and a second link without one.
  private struct Bench {
    let lab: Laboratory
    let link: String
    let remote: String
    var options = TCPConnection.Options(source: "10.0.0.2")
    let other: NetworkNamespace
    /// Lasts as long as the laboratory.
    private var far: LossyLink?

    init(_ diversion: Diversion, _ change: Change) throws {
      self.link = change == .wifi ? "wlan0" : "eth0"
      let isFar = diversion == .farMark
      let lab = try Uplinks.laboratory(
        isFar ? [self.link] : [self.link, "eth1"], routes: [self.link])
      self.lab = lab
      if isFar { self.far = try LossyLink("eth1", 1, in: lab, delay: .milliseconds(150)) }
      try lab.namespace.ip("link set lo up")
      switch diversion {
      case .redirect:
        (self.remote, self.other) = (service, lab.namespace)
        self.options.listen = "127.0.0.1"
        try lab.namespace.nft(
          "table ip t { chain o { type nat hook output priority -100; ip daddr \(service) redirect; }; }"
        )
      case .pod:
        let pod = try NetworkNamespace()
        (self.remote, self.other) = (service, pod)
        self.options.listen = "10.244.0.2"
        try lab.namespace.ip("link add pod0 type veth peer name eth0 netns \(pod.name)")
        try lab.namespace.ip("address add 10.244.0.1/24 dev pod0")
        try pod.ip("address add 10.244.0.2/24 dev eth0")
        try lab.namespace.ip("link set pod0 up")
        try pod.ip("link set eth0 up")
        try pod.ip("route add default via 10.244.0.1")
        try lab.namespace.nft(
          "table ip t { chain o { type nat hook output priority -100; ip daddr \(service) dnat to 10.244.0.2; }; }"
        )
      case .mark, .farMark:
        (self.remote, self.other) = (Uplinks.server, lab.outside)
        try Uplinks.mark(in: lab)
      case .proxy:
        (self.remote, self.other) = (service, lab.namespace)
        (self.options.listen, self.options.isTransparent) = ("127.0.0.1", true)
        try lab.namespace.ip("rule add fwmark 17 lookup 117")
        try lab.namespace.ip("route add local 0.0.0.0/0 dev lo table 117")
        try lab.namespace.nft(
          """
          table ip t {
            chain c { type filter hook output priority 0; ct state new accept; }
            chain o { type route hook output priority mangle; ip daddr \(service) meta mark set 17; }
            chain i {
              type filter hook prerouting priority mangle
              iif "lo" ip daddr \(service) meta l4proto tcp tproxy to 127.0.0.1 meta mark set 17 accept
            }
          }
          """)
      }
      try lab.start()
    }
  }

  @Test(
    "I0 E0 E1 netfilter diverts connections with any pauses, and the lookup's link fails → none is destroyed",
    arguments: Diversion.allCases, Change.allCases)
  func diverted(_ diversion: Diversion, _ change: Change) throws {
    let bench = try Bench(diversion, change)
    let flows = try Self.gaps.map { _ in
      try GuardedFlow(bench.lab, to: bench.remote, bench.options, in: bench.other)
    }
    var traffic: [Traffic] = []
    for (flow, gap) in zip(flows, Self.gaps) {
      guard let gap, let connection = flow.connection else { continue }
      traffic.append(connection.startTraffic(every: .milliseconds(gap)))
    }
    for each in traffic { try each.awaitAnswers(1) }
    let slowest = try #require(traffic.last)
    // The idle one is idle for longer than a second.
    try slowest.awaitAnswers(1)
    switch change {
    case .cable, .wifi: try bench.lab.unplug(bench.link)
    case .betterPath:
      try bench.lab.namespace.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    case .cableWhileStopped:
      let connd = try #require(bench.lab.connd)
      connd.signal(SIGSTOP)
      try bench.lab.unplug(bench.link)
      let end = ContinuousClock.now + .milliseconds(400)
      while ContinuousClock.now < end { poll(nil, 0, 10) }
      connd.signal(SIGCONT)
    }
    // Everything is decided within three seconds and a pause.
    try slowest.awaitAnswers(2)
    for each in traffic {
      try each.awaitAnswers(1)
      each.stop()
    }
    try GuardedFlow.expectSpared(flows, atMost: .drain) {
      try bench.lab.namespace.ip("address del 10.0.0.2/24 dev \(bench.link)")
    }
  }
}
