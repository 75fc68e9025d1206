import Connectivity
import ConnectivityRules
import TestKit

/// A kernel with random events: it reports them, and shows the present state.
struct RandomKernel {
  private(set) var links: [TestLink] = [.wired, .wifi, .cellular]
  private var nextIndex: UInt32 = 10
  /// Addresses that still exist, and are no longer preferred.
  private var deprecated: Set<IPAddress> = []

  var observation: Observation { Observation(self.links) }

  /// A random event for a link, an address or a route of a path.
  mutating func happen(using random: inout SeededGenerator) -> [KernelEvent] {
    let place = Int.random(in: 0..<self.links.count, using: &random)
    let family = random.pick(AddressFamily.allCases)
    let before = self.links[place]
    var link = before
    defer { self.links[place] = link }

    switch Int.random(in: 0..<7, using: &random) {
    case 0:
      link.hasCarrier.toggle()
      return [.link(link.link)]
    case 1:
      link.isUp.toggle()
      if link.isUp { return [.link(link.link)] }
      // IPv4's routes are removed silently, IPv6's addresses and routes with messages.
      link.gateway = [:]
      link.host[.ipv6] = nil
      return [.link(link.link)] + before.routeRemoved(.ipv6) + before.removed(.ipv6)
    case 2:
      self.nextIndex += 1
      link.index = self.nextIndex
      return [.linkRemoved(before.link), .link(link.link)]
    case 3:
      link.host[family] = before.host[family] == nil ? 7 : nil
      return before.removed(family) + link.added(family)
    case 4:
      link.host[family] = before.host[family] == 7 ? 8 : 7
      if let old = before.source(family), random.oneIn(2) {
        self.deprecated.insert(old)
        return link.added(family)
      }
      return link.added(family) + before.removed(family)
    case 5:
      link.isTentative[family] = link.isTentative[family] != true
      return link.added(family)
    default:
      guard before.isUp else { return [] }
      link.gateway[family] = before.gateway[family] == nil ? random.pick([1, 1, 1, 2]) : nil
      return before.routeRemoved(family) + link.routeAdded(family)
    }
  }

  /// A random loss and return that leaves no other trace.
  mutating func bounce(using random: inout SeededGenerator) -> [KernelEvent] {
    let link = random.pick(self.links)
    let family = random.pick(AddressFamily.allCases)
    switch Int.random(in: 0..<3, using: &random) {
    case 0: return [.link(link.withoutCarrier.link), .link(link.link)]
    case 1: return link.removed(family) + link.added(family)
    default: return link.routeRemoved(family) + link.routeAdded(family)
    }
  }

  /// A random event that leaves every path alone (T3).
  func noise(using random: inout SeededGenerator) -> [KernelEvent] {
    let noise = TestLink.noise
    let link = random.pick(self.links)
    let family = random.pick(AddressFamily.allCases)
    switch Int.random(in: 0..<8, using: &random) {
    case 0: return [.link(noise.link), .linkRemoved(noise.link)]
    case 1: return noise.added(family) + noise.removed(family)
    case 2: return noise.routeAdded(family) + noise.routeRemoved(family)
    case 3: return link.isUp ? [link.scanNoise] : []
    case 4: return link.hasCarrier && link.isUp ? [.link(link.link)] : []
    case 5: return link.isTentative[family] == true ? [] : link.added(family)
    case 6: return link.routeRemoved(family, metric: 4711)
    default: return [.malformed("short"), .nexthopRemoved(id: 7), .rule(family)]
    }
  }

  /// Whether everything that a path needs exists now.
  func holds(_ path: Path, _ family: AddressFamily) -> Bool {
    self.links.contains { link in
      link.index == path.chain.first?.index && link.isUp && link.hasCarrier
        && (link.source(family) == path.source || path.source.map(self.deprecated.contains) == true)
        && link.isTentative[family] != true && link.gatewayAddress(family) == path.gateway
    }
  }
}
