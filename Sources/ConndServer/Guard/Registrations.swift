/// The flows that are to be guarded from the next turn on, in the order in which they came.
struct Registrations {
  private var all: [FlowTable.Registration] = []
  private var keys: Set<FlowTable.Key> = []
  private var counts: [UInt64: Int] = [:]

  var isEmpty: Bool { self.all.isEmpty }
  var count: Int { self.all.count }
  func count(of guardian: UInt64) -> Int { self.counts[guardian] ?? 0 }
  func contains(_ key: FlowTable.Key) -> Bool { self.keys.contains(key) }

  mutating func append(_ registration: FlowTable.Registration) {
    self.all.append(registration)
    self.keys.insert(registration.key)
    self.counts[registration.key.guardian, default: 0] += 1
  }

  mutating func removeAll(of guardian: UInt64) {
    guard self.counts.removeValue(forKey: guardian) != nil else { return }
    self.all.removeAll { $0.key.guardian == guardian }
    self.keys = Set(self.all.map(\.key))
  }

  mutating func takeAll() -> [FlowTable.Registration] {
    defer { self = Registrations() }
    return self.all
  }
}
