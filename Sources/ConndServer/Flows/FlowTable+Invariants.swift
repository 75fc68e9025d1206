import Connectivity
import ConnectivityRules
import Invariants

/// The invariants of the table, between two operations.
extension FlowTable {
  /// Checks the invariants that cost nothing. A debug build checks all others of a small table.
  func check() {
    let count = self.flows.count
    invariant(self.entries.count == count, "each flow has one entry and one place")
    invariant(self.usage.count == count, "each flow is charged to its account")
    invariant((0...count).contains(self.due), "at most all flows are due")
    invariant((0...count).contains(self.socketFlows), "at most all flows name a socket")
    invariant(self.inDoubt.count <= count, "only guarded flows are in doubt")
    invariant(self.pending.count <= count, "only guarded flows are pending")
    #if DEBUG
      if count <= 64, let fault = self.fault { Invariants.broken(fault, #fileID, #line) }
    #endif
  }

  /// The first broken invariant of the table, or `nil` without one. Visits all flows.
  var fault: StaticString? {
    var (ids, addresses): ([UInt64: Set<UInt64>], [IPAddress: Int]) = ([:], [:])
    for (place, flow) in self.flows.enumerated() {
      guard flow.place == place, self.entries[flow.key] === flow else {
        return "each flow is at its place"
      }
      guard self.inDoubt.contains(flow.key) == (flow.machine.deadline != nil) else {
        return "the flows in doubt are those with a deadline"
      }
      guard flow.machine.isBetweenEvaluations else { return "each flow is in exactly one state" }
      ids[flow.key.mailbox, default: []].insert(flow.key.id)
      for address in flow.addresses { addresses[address, default: 0] += 1 }
    }
    if self.due != self.flows.count(where: self.isDue) { return "as many flows are due as counted" }
    if self.ids != ids { return "each flow belongs to its client" }
    if self.addressCounts != addresses { return "each flow counts for its addresses" }
    if self.socketFlows != self.flows.count(where: \.flow.namesSocket) {
      return "as many flows name a socket as counted"
    }
    let known = [self.newest.values.map(\.self), self.sockets.values.map(\.self)].joined()
    guard known.allSatisfy(self.contains), self.inDoubt.allSatisfy(self.contains),
      self.pending.keys.allSatisfy(self.contains)
    else { return "only guarded flows are known" }
    let accounts = Dictionary(grouping: self.flows, by: \.account)
    guard accounts.allSatisfy({ self.usage.count(of: $0) == $1.count }) else {
      return "each flow is charged to its account"
    }
    return nil
  }
}
