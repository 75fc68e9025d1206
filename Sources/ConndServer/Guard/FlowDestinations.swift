import Connectivity

/// Where flows lead to, and which do: destinations in an order that depends on nothing but what came and went, and that is
/// there at once. To collect ten thousand of them takes a while, in which nobody hears the kernel.
struct FlowDestinations {
  private var entries: [Destination: Entry] = [:]
  private(set) var all: [Destination] = []

  private struct Entry {
    var flows: Set<FlowTable.Key>
    /// The destination's own among all.
    var place: Int
  }

  subscript(destination: Destination) -> Set<FlowTable.Key>? { self.entries[destination]?.flows }

  mutating func insert(_ flow: FlowTable.Key, _ destination: Destination) {
    if self.entries[destination] == nil {
      self.entries[destination] = Entry(flows: [flow], place: self.all.count)
      self.all.append(destination)
    } else {
      self.entries[destination]?.flows.insert(flow)
    }
  }

  mutating func remove(_ flow: FlowTable.Key, _ destination: Destination) {
    self.entries[destination]?.flows.remove(flow)
    guard let entry = self.entries[destination], entry.flows.isEmpty,
      let last = self.all.popLast()
    else { return }
    self.entries[destination] = nil
    // The last takes its place.
    guard last != destination else { return }
    self.all[entry.place] = last
    self.entries[last]?.place = entry.place
  }
}
