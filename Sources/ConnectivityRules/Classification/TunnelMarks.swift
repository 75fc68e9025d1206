package import Connectivity

/// Implements rule K6.
extension Rule {
  /// Returns the marks that keep traffic out of a routing table. A tunnel with routes in that table
  /// marks its own packets, because otherwise they would return to it.
  ///
  /// wg-quick, NetworkManager and most VPN services direct all unmarked traffic to the table (`not
  /// from all fwmark 0xca6c lookup 51820`). Tailscale has an earlier rule that directs its own
  /// marked traffic to main (`from all fwmark 0x80000/0xff0000 lookup main`). Other rules with a
  /// mark are not evidence, because they may have any purpose.
  ///
  /// - Parameters:
  ///   - table: The table with the routes into the tunnel.
  ///   - rules: The rules of one address family, in their order.
  package static func marks(keptOutOf table: UInt32, by rules: [Rule]) -> [UInt32] {
    var marks: [UInt32] = []
    func add(_ mark: UInt32) {
      if mark != 0, !marks.contains(mark), marks.count < Self.maxMarks { marks.append(mark) }
    }
    for rule in rules where rule.action == .lookup && rule.table == table {
      if case .mark(let mark, isInverted: true) = rule.selection { add(mark) }
    }
    guard marks.isEmpty, table != Self.main else { return marks }
    for rule in rules where rule.action == .lookup {
      if rule.table == table, rule.selection == .all { return marks }
      guard rule.table == Self.main, case .mark(let mark, isInverted: false) = rule.selection
      else { continue }
      add(mark)
    }
    // No rule directs all traffic to the table, so these marks do not keep traffic out of it.
    return []
  }

  private static let main: UInt32 = 254
  private static let maxMarks = 4
}
