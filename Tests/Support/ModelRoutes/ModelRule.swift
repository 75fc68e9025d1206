package import Connectivity

/// A rule that selects a routing table for some traffic.
package struct ModelRule: Hashable, Sendable {
  package enum Selector: Hashable, Sendable {
    case all
    /// `from ADDRESS`
    case source(IPAddress)
    /// `ipproto tcp dport PORT`
    case port(UInt16, AddressFamily)
    /// `sport FIRST-LAST`
    case localPorts(ClosedRange<UInt16>)
    /// `not fwmark MARK`
    case exceptMark(UInt32)
  }

  package var selector: Selector
  package var table: UInt32

  package init(_ selector: Selector, table: UInt32) {
    (self.selector, self.table) = (selector, table)
  }

  /// The address family of the rule: IPv4 unless its selector names one.
  package var family: AddressFamily {
    switch self.selector {
    case .source(let source): source.family
    case .port(_, let family): family
    case .all, .localPorts, .exceptMark: .ipv4
    }
  }

  fileprivate func applies(to destination: Destination) -> Bool {
    guard destination.address.family == self.family else { return false }
    let transport = destination.transport
    return switch self.selector {
    case .all: true
    case .source(let source): destination.source == source
    case .port(let port, _): transport?.number == Transport.tcp && transport?.remotePort == port
    case .localPorts(let ports): transport.map { ports.contains($0.localPort) } ?? false
    case .exceptMark(let mark): destination.mark != mark
    }
  }
}

extension [ModelRule] {
  /// Returns the entry that decides: the rules in order, and the main table at the end.
  ///
  /// - Parameter best: Returns the best entry of a table.
  package func entry(
    for destination: Destination, _ best: (UInt32) -> ModelRoute?
  ) -> ModelRoute? {
    for rule in self where rule.applies(to: destination) {
      if let entry = best(rule.table) { return entry }
    }
    return best(254)
  }
}
