import Connectivity
import ConnectivityRules
import Netlink

// The kernel messages that the engine needs.
extension Engine {
  /// The subscriptions to kernel messages, in addition to default routes.
  var filterSpec: FilterSpec {
    let single = self.watched.addresses.union(self.flows.addresses)
      .union(self.context.subscriptions.tunnelEnds)
    return self.filterSpec(self.reader.destinations.all + single.sorted())
  }

  /// Returns the subscriptions of ``filterSpec``, but with routes to `destinations` only.
  func filterSpec(_ destinations: [IPAddress]) -> FilterSpec {
    let subscriptions = self.context.subscriptions
    return FilterSpec(
      destinations: destinations, gateways: subscriptions.gateways.gateways,
      bridged: subscriptions.bridgePorts.hardwareAddresses,
      unheard: subscriptions.ignoredLinks.unheard)
  }

  /// Whether the socket filter drops messages that may matter.
  var needsWiderFilter: Bool { self.context.subscriptions.isWider }

  /// Whether messages may concern a client's path (T3).
  mutating func mayMatter(_ events: [KernelEvent]) -> Bool {
    self.context.subscriptions.ignoredLinks.mayMatter(events)
  }

  /// Notes that the socket filter now passes everything that matters.
  ///
  /// - Returns: The messages that the old filter dropped, or `nil` if nothing can have been missed.
  mutating func acceptFilter(_ kernel: any Kernel) throws(KernelUnavailable) -> [KernelEvent]? {
    try self.context.read(kernel) { (view) throws(KernelUnavailable) in
      try view.acceptFilter()
    }
  }
}
