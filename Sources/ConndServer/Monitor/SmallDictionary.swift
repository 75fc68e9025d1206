/// A dictionary of what is few mostly, in one turn: as many as ``few`` keys are compared one by one, which costs less than to
/// hash them.
struct SmallDictionary<Key: Hashable, Value> {
  private var few: [(key: Key, value: Value)] = []
  private var others: [Key: Value] = [:]

  private static var few: Int { 8 }

  subscript(key: Key) -> Value? {
    get {
      for entry in self.few where entry.key == key { return entry.value }
      return self.others.isEmpty ? nil : self.others[key]
    }
    set {
      if let place = self.few.firstIndex(where: { $0.key == key }) {
        if let newValue { self.few[place].value = newValue } else { self.few.remove(at: place) }
      } else if self.few.count < Self.few, self.others.isEmpty {
        if let newValue { self.few.append((key, newValue)) }
      } else {
        self.others[key] = newValue
      }
    }
  }

  func forEach(_ body: (Key, Value) -> Void) {
    for (key, value) in self.few { body(key, value) }
    for (key, value) in self.others { body(key, value) }
  }
}
