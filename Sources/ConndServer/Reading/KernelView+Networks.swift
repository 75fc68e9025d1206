import Connectivity
import ConnectivityRules

// The networks behind gateways, and the ports of bridges. Both tables determine the queries.
extension KernelView {
  /// Returns what is known about the network behind a path's link.
  ///
  /// - Parameter isDefault: Whether this is a default path. New connections then use its source
  ///   address.
  func identity(
    of path: KernelPath, _ facts: PathFacts, isDefault: Bool = false
  ) throws(KernelUnavailable) -> NetworkIdentity {
    if facts.isTranslated {
      let (path, below) = facts.belowTranslator(path)
      var identity = try self.ownIdentity(of: path, below, isDefault: false)
      identity.translation = TranslationPrefixes(
        try self.addresses(), on: facts.translatedLink?.link.index)
      return identity
    }
    return try self.ownIdentity(of: path, facts, isDefault: isDefault)
  }

  private func ownIdentity(
    of path: KernelPath, _ facts: PathFacts, isDefault: Bool
  ) throws(KernelUnavailable) -> NetworkIdentity {
    for facts in facts.links { self.subscriptions.gateways.observe(facts.link) }
    if let first = facts.links.first?.link, first.hasNeighbours, let address = path.gateway {
      let gateway = Gateway(link: first.index, address: address)
      try self.ask(gateway, behind: Set(facts.links.map(\.link.index)))
      if isDefault {
        let lengths = try path.source.map { (source) throws(KernelUnavailable) in
          try self.prefixLengths(of: source, on: first.index)
        }
        self.subscriptions.gateways.use(path.source, prefixLengths: lengths ?? [], by: gateway)
      }
    }
    return self.subscriptions.gateways.identity(of: path, facts)
  }

  /// Returns the last known MAC address of a gateway, or `nil` if it is unknown.
  ///
  /// - Parameter links: The gateway's link and the links below it.
  func hardwareAddress(
    of gateway: Gateway, behind links: [LinkFacts]
  ) throws(KernelUnavailable) -> [UInt8]? {
    guard let first = links.first?.link, first.hasNeighbours else { return nil }
    for facts in links { self.subscriptions.gateways.observe(facts.link) }
    try self.ask(gateway, behind: Set(links.map(\.link.index)))
    self.subscriptions.gateways.awaitIfSuspect(gateway)
    return self.subscriptions.gateways.lastHardwareAddress(of: gateway)
  }

  private func ask(
    _ gateway: Gateway, behind links: Set<UInt32>
  ) throws(KernelUnavailable) {
    for link in self.subscriptions.gateways.follow(gateway, behind: links) {
      if let facts = try self.linkAnew(link) {
        self.subscriptions.gateways.observe(facts.link)
      } else {
        self.subscriptions.forget(link)
      }
    }
    self.subscriptions.gateways.move(gateway, behind: links)
    guard self.subscriptions.gateways.mustAsk(gateway) else { return }
    // The links were queried before the neighbour, so that a loss in between is noticed.
    let neighbour = try self.neighbour(gateway.address, on: gateway.link)
    if self.subscriptions.gateways.contradicts(neighbour, gateway) {
      for link in links.sorted() {
        if let facts = try self.linkAnew(link) {
          self.subscriptions.gateways.observe(facts.link)
        }
      }
    }
    self.subscriptions.gateways.learn(neighbour, of: gateway)
  }

  /// Returns the place where a bridge reaches a MAC address, or last reached it.
  func place(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> BridgePorts.Place {
    let key = BridgePorts.Key(bridge: bridge, hardwareAddress: hardwareAddress)
    self.subscriptions.bridgePorts.follow(key)
    let port = try self.bridgePort(of: hardwareAddress, on: bridge)
    return self.subscriptions.bridgePorts.learn(port, of: key)
  }

  /// Notes that the socket filter now passes everything that matters.
  ///
  /// - Returns: The messages that the old filter dropped, as far as they can be reconstructed, or
  ///   `nil` if nothing can have been missed. If the result is not `nil`, everything must be read
  ///   again, because changes of links or of routes to tunnel ends may also be missing.
  func acceptFilter() throws(KernelUnavailable) -> [KernelEvent]? {
    let mustRead = self.subscriptions.acceptFilter()
    var events: [KernelEvent] = []
    for heard in self.subscriptions.gateways.gateways {
      let found = try self.unlessRefused { () throws(KernelUnavailable) in
        try self.neighbour(heard.address, on: heard.link)
      }
      guard let neighbour = found ?? nil else { continue }
      if let missed = self.subscriptions.gateways.missed(since: heard, neighbour) {
        events.append(missed)
      }
    }
    for key in self.subscriptions.bridgePorts.keys {
      let port = try self.bridgePort(of: key.hardwareAddress, on: key.bridge)
      if let missed = self.subscriptions.bridgePorts.missed(port, of: key) { events.append(missed) }
    }
    return events.isEmpty && !mustRead ? nil : events
  }
}
