import Connectivity
import ConnectivityRules

@testable import ConndServer

/// Violations by connd, as the model network and the flow's own socket show them.
extension GuardedFlow {
  /// Why the flow must be gone after connd's reading, or `nil` if it may stay because its socket
  /// may refute the lookup (E1).
  func whyDead(
    in network: ModelNetwork, _ connection: ModelConnection?, isProof: Bool, at now: Instant
  ) -> String? {
    guard let why = self.whyOver(in: network, at: now) else { return nil }
    guard let connection else { return why }
    return self.testimony.excuses(
      connection, isProof: isProof, isLinkWorking: self.isLinkWorking(in: network), at: now)
      ? nil : why
  }

  /// Whether only a better path is against it: its address and link are there.
  private func isLinkWorking(in network: ModelNetwork) -> Bool {
    guard let made = self.made, let link = made.link else { return false }
    let path = self.ownPath(in: network)
    return path.status == .satisfied && !self.isForbidden(path)
      && made.source.map(network.isLocal) ?? false && network.link(link.index)?.state == .up
  }

  /// Whether lookups and neighbours show a fault on its way.
  func isInTrouble(in network: ModelNetwork) -> Bool {
    guard !self.isLocal, self.made != nil else { return false }
    return self.fate(in: network) != .carried || self.hasOtherRouter(in: network)
  }

  /// Whether only its socket shows that it is dead.
  func isStanding(in network: ModelNetwork) -> Bool {
    guard !self.isLocal, let made = self.made, made.path.status == .satisfied,
      made.source.map(network.isLocal) ?? false
    else { return false }
    let path = self.ownPath(in: network)
    return path.status == .satisfied && path.chain.first == made.link && !self.isForbidden(path)
      && (made.hasChosen || !self.prefersOtherSubnet(network))
  }

  /// Whether both its address and its link are gone.
  func isGone(in network: ModelNetwork) -> Bool {
    guard let made = self.made, let source = made.source else { return false }
    return !network.isLocal(source) && network[made.link?.index] == nil
  }

  /// Why the flow is over by the lookup, or `nil` if it is not.
  func whyOver(in network: ModelNetwork, at now: Instant) -> String? {
    guard !self.isLocal, let made = self.made, made.path.status == .satisfied else { return nil }
    switch self.fate(in: network) {
    case .carried: break
    case .away, .awayOrOver:
      let isOver = self.knownLostAt.map { $0.advanced(by: .seconds(1)) <= now } ?? false
      return isOver ? "I10: kept although its way has been away for a second" : nil
    case .maybeOver: break
    case .over(let why): return "I1 I2 I3 I8: kept although \(why)"
    }
    return self.hasOtherRouter(in: network) ? "I4: kept although the router is another" : nil
  }

  private func hasOtherRouter(in network: ModelNetwork) -> Bool {
    guard let made = self.made, let router = made.router else { return false }
    let path = self.ownPath(in: network)
    guard let gateway = path.gateway, gateway == made.path.gateway,
      path.chain.first == made.link, path.status == .satisfied,
      let present = network[made.link?.index]?.neighbours[gateway]
    else { return false }
    return present != router
  }
}
