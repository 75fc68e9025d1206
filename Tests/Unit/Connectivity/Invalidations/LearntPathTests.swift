import Connectivity
import Testing

@testable import ConnectivityRules

/// Better knowledge of a path is not a change of the network (I5).
@Suite("Better knowledge")
struct LearntPathTests {
  private static func path(
    _ links: String..., medium: NetworkMedium, gateway: IPAddress = "10.0.0.1"
  ) -> KernelPath {
    KernelPath(
      status: .satisfied,
      chain: links.enumerated().map {
        KernelPath.Link(index: UInt32($0.offset + 4), name: $0.element)
      },
      medium: medium, source: "10.0.0.2", sourcePrefixLength: 24, gateway: gateway, table: 254)
  }

  private static let assumed = CandidatePath(
    path("br0", "eth0", medium: .wired), knownLinks: 1)
  private static let guest = CandidatePath(path("br0", "vnet0", medium: .unknown))

  /// The published changes when a reading of `before` is followed by one of `after`.
  private static func play(
    _ before: CandidatePath, _ after: CandidatePath, on trigger: ReadTrigger = .events([])
  ) -> [String] {
    var maker = ChangeDetector()
    func reading(_ path: CandidatePath) -> ChangeDetector.Reading {
      let nothing = CandidatePath(.unsatisfied(.noRoute))
      var reading = ChangeDetector.Reading(Observation(ipv4: path, ipv6: nothing))
      for followed in maker.followed {
        reading.followed[followed.id] = FlowReading(path.path)
      }
      return reading
    }
    let (now, time) = (Instant(milliseconds: 0), WallTime(microseconds: 0))
    _ = maker.update(to: reading(before), on: .start, at: now, time: time)
    let step = maker.update(to: reading(after), on: trigger, at: now, time: time)
    return step.changes.map { change in
      switch change {
      case .transition(let transition): "\(transition.from)>\(transition.to)"
      case .path(let path): "path \(path.snapshot.status.category.rawValue)"
      case .invalidation(let told): "\(told.severity) \(told.reason)"
      case .dns: "dns"
      @unknown default: "?"
      }
    }
  }

  @Test("I5 the bridge learns the gateway's port → a path event, and advice")
  func port() {
    #expect(Self.play(Self.assumed, Self.guest) == ["path other", "advise categoryChanged"])
    #expect(Self.play(Self.guest, Self.assumed) == ["path wired", "advise categoryChanged"])
  }

  @Test("I5 a link's medium becomes known → a path event, and advice")
  func medium() {
    let before = CandidatePath(Self.path("wlan0", medium: .unknown))
    let after = CandidatePath(Self.path("wlan0", medium: .wifi))
    #expect(Self.play(before, after) == ["path wifi", "advise categoryChanged"])
    // Changes by the configuration and by ModemManager have always been transitions.
    for trigger in [ReadTrigger.configuration, .modem(ModemChange(.connected, "wlan0"))] {
      #expect(
        Self.play(before, after, on: trigger) == ["other>wifi", "advise categoryChanged"])
    }
  }

  @Test("I5 the gateway moves from one known port to another → a transition")
  func moved() {
    let before = CandidatePath(Self.path("br0", "eth0", medium: .wired))
    #expect(Self.play(before, Self.guest) == ["wired>other", "destroy categoryChanged"])
  }

  @Test("I5 another gateway is learnt behind another port → a transition")
  func otherGateway() {
    var other = Self.guest
    other.path.gateway = "10.0.0.9"
    #expect(Self.play(Self.assumed, other) == ["wired>other", "destroy categoryChanged"])
  }

  @Test("I5 T2 the likeliest port has failed in between → a transition")
  func failed() {
    var link = Link(index: 5, name: "eth0", flags: [.up], carrier: false)
    link.master = 4
    let told = Self.play(Self.assumed, Self.guest, on: .events([.link(link)]))
    #expect(told.first == "wired>other")
  }
}
