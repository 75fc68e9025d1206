import Connectivity
import ConnectivityRules
import TestKit

extension Scene {
  static let anything = Scene(links: [Place(.wired), Place(.wifi), Place(.cellular)])

  /// A random event for a link, an address, a route or a router.
  mutating func happen(using random: inout SeededGenerator) {
    let number = Int.random(in: 0..<self.links.count, using: &random)
    let family = random.pick(AddressFamily.allCases)
    var place = self.links[number]
    defer { self.links[number] = place }

    switch Int.random(in: 0..<10, using: &random) {
    case 0: place.link.hasCarrier.toggle()
    case 1:
      place.link.isUp.toggle()
      if !place.link.isUp { place.link.gateway = [:] }
    case 2: place.link.index += 10
    case 3: place.link.host[family] = place.link.host[family] == nil ? 7 : nil
    case 4:
      if random.oneIn(2), let source = place.link.source(family) {
        place.formerAddresses.insert(source)
      }
      place.link.host[family] = random.pick([7, 8, 9])
    case 5: place.formerAddresses = place.formerAddresses.filter { $0.family != family }
    case 6, 7: place.link.gateway[family] = place.link.gateway[family] == nil ? 1 : nil
    case 8: place.link.gateway[family] = random.pick([1, 2])
    default: place.router = random.pick([1, 1, 2, nil])
    }
    // The kernel takes another address if there is one.
    if place.link.host[family] == nil {
      let former = place.formerAddresses.filter { $0.family == family }.min()
      place.link.host[family] = former?.bytes.last.map { Int($0) }
    }
    if let source = place.link.source(family) { place.formerAddresses.remove(source) }
  }

  /// A random loss and return that leaves no other trace.
  func bounce(using random: inout SeededGenerator) -> [KernelEvent] {
    let link = random.pick(self.links).link
    let family = random.pick(AddressFamily.allCases)
    return switch Int.random(in: 0..<3, using: &random) {
    case 0: [.link(link.withoutCarrier.link), .link(link.link)]
    case 1: link.removed(family) + link.added(family)
    default: link.routeRemoved(family) + link.routeAdded(family)
    }
  }

  /// A random event that leaves every path alone (T3).
  func noise(using random: inout SeededGenerator) -> [KernelEvent] {
    let noise = TestLink.noise
    let link = random.pick(self.links).link
    let family = random.pick(AddressFamily.allCases)
    return switch Int.random(in: 0..<8, using: &random) {
    case 0: [.link(noise.link), .linkRemoved(noise.link)]
    case 1: noise.added(family) + noise.removed(family)
    case 2: noise.routeAdded(family) + noise.routeRemoved(family)
    case 3: link.isUp ? [link.scanNoise] : []
    case 4: link.hasCarrier && link.isUp ? [.link(link.link)] : []
    case 5: link.isTentative[family] == true ? [] : link.added(family)
    case 6: link.routeRemoved(family, metric: 4711)
    default: [.malformed("short"), .nexthopRemoved(id: 7), .rule(family)]
    }
  }

  /// Whether everything that a path needs exists now.
  func holds(_ path: KernelPath, _ family: AddressFamily) -> Bool {
    self.links.contains { place in
      place.link.index == path.chain.first?.index && place.link.isUp && place.link.hasCarrier
        && path.source.map(place.has) == true && place.link.isTentative[family] != true
        && place.link.gatewayAddress(family) == path.gateway
    }
  }
}
