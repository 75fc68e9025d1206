/// An `ip rule`: it selects the routing table for some traffic.
package struct Rule: Hashable, Sendable {
  /// The action for traffic that a rule selects.
  package enum Action: Hashable, Sendable {
    /// Look up a table. If it has no route, continue with the next rule.
    case lookup
    /// Continue with the rule of this priority.
    case goto(UInt32)
    case nothing
    case blackhole
    case unreachable
    case prohibit
    /// An unknown action.
    case other(UInt8)
  }

  /// The traffic that a rule selects, as far as it depends on the mark alone.
  package enum Selection: Hashable, Sendable {
    case all
    /// Traffic with this mark; if inverted, all other traffic.
    case mark(UInt32, isInverted: Bool)
    /// Traffic that is selected by other or additional criteria.
    case other
  }

  package var family: AddressFamily
  /// The order of the rules, lowest first.
  package var priority: UInt32
  /// The traffic, in the syntax of `ip rule`: `from all`, `not from all fwmark 0xca6c`.
  package var selector: String
  package var selection: Selection
  package var action: Action
  /// The table to look up, or `nil` for other actions, or if the VRF determines the table
  /// (`l3mdev`).
  package var table: UInt32?
  /// Ignores routes with a prefix of at most this many bits. 0 ignores default routes.
  package var suppressPrefixLength: UInt32?

  package init(
    family: AddressFamily, priority: UInt32, selector: String = "from all",
    selection: Selection = .all, action: Action = .lookup, table: UInt32? = nil,
    suppressPrefixLength: UInt32? = nil
  ) {
    self.family = family
    self.priority = priority
    self.selector = selector
    self.selection = selection
    self.action = action
    self.table = table
    self.suppressPrefixLength = suppressPrefixLength
  }
}

extension Rule: CustomStringConvertible {
  /// The rule in the syntax of `ip rule`: `32766: from all lookup main`.
  package var description: String {
    let action =
      switch self.action {
      case .lookup: self.table.map { "lookup \(Self.name(ofTable: $0))" } ?? "lookup [l3mdev-table]"
      case .goto(let priority): "goto \(priority)"
      case .nothing: "nop"
      case .blackhole: "blackhole"
      case .unreachable: "unreachable"
      case .prohibit: "prohibit"
      case .other(let number): "action \(number)"
      }
    let suppression = self.suppressPrefixLength.map { " suppress_prefixlength \($0)" } ?? ""
    return "\(self.priority): \(self.selector) \(action)\(suppression)"
  }

  /// Returns the name if the table is one of the kernel's own, or else its number.
  private static func name(ofTable table: UInt32) -> String {
    switch table {
    case 253: "default"
    case 254: "main"
    case 255: "local"
    default: String(table)
    }
  }
}
