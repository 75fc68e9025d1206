/// An `ip rule`: which table is asked for which traffic.
package struct Rule: Hashable, Sendable {
  /// What the kernel does with traffic that a rule selects.
  package enum Action: Hashable, Sendable {
    /// Ask a table; where it has no route, go on with the next rule.
    case lookup
    /// Go on with the rule of that priority.
    case goto(UInt32)
    case nothing
    case blackhole
    case unreachable
    case prohibit
    /// An action that is not known here.
    case other(UInt8)
  }

  /// Which traffic a rule selects, as far as the mark alone tells.
  package enum Selection: Hashable, Sendable {
    case all
    /// That with this mark; inverted, all other.
    case mark(UInt32, isInverted: Bool)
    /// By whatever else, or more.
    case other
  }

  package var family: AddressFamily
  /// The rules' order, the lowest first.
  package var priority: UInt32
  /// Which traffic, as `ip rule` prints it: `from all`, `not from all fwmark 0xca6c`.
  package var selector: String
  package var selection: Selection
  package var action: Action
  /// The table to ask; `nil` where the action is another, or the VRF names the table (`l3mdev`).
  package var table: UInt32?
  /// Routes with a prefix of at most that many bits do not count: 0 passes over default routes.
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
  /// The rule as `ip rule` prints it: `32766: from all lookup main`.
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

  /// The names that need no file to look them up: those of the kernel's own tables.
  private static func name(ofTable table: UInt32) -> String {
    switch table {
    case 253: "default"
    case 254: "main"
    case 255: "local"
    default: String(table)
    }
  }
}
