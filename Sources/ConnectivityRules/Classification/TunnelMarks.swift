package import Connectivity

extension Rule {
  /// The marks that keep traffic out of a routing table: a tunnel that has its routes there sends its own packets with one of them,
  /// for else they would come back to it.
  ///
  /// wg-quick, NetworkManager and most VPN services have all traffic but their own asked for there (`not from all fwmark 0xca6c
  /// lookup 51820`); Tailscale has its own asked for in main before (`from all fwmark 0x80000/0xff0000 lookup main`). Other
  /// rules with a mark are no sign: they may be anybody's.
  ///
  /// - Parameters:
  ///   - table: the one that leads into the tunnel.
  ///   - rules: those of one family, in their order.
  package static func marks(keptOutOf table: UInt32, by rules: [Rule]) -> [UInt32] {
    var marks: [UInt32] = []
    func add(_ mark: UInt32) {
      if mark != 0, !marks.contains(mark), marks.count < Self.mostMarks { marks.append(mark) }
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
    // No rule leads all traffic there: whatever does, it is not kept out by these.
    return []
  }

  private static let main: UInt32 = 254
  private static let mostMarks = 4
}
