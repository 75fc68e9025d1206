/// The flows that a script guards with `connctl guard --stdin`, by the script's ids.
///
/// A script may use an id again while events of its last connection are in transit. So a flow has
/// a key besides, which is never used again.
struct CoprocessFlows {
  struct Flow: Hashable {
    var id: UInt64
    var connection: GuardedConnection
  }

  enum Action: Hashable {
    case add(key: UInt64, GuardedConnection)
    case remove(key: UInt64)
  }

  /// The maximum number of flows: the default of connd's `limits.flowsPerStream`.
  static let maxFlows = 16_384

  private let maxFlows: Int
  private var flows: [UInt64: Flow] = [:]
  private var keys: [UInt64: UInt64] = [:]
  private var lastKey: UInt64 = 0

  init(maxFlows: Int = Self.maxFlows) { self.maxFlows = maxFlows }

  /// Returns a flow, or `nil` if it has ended.
  subscript(key: UInt64) -> Flow? { self.flows[key] }

  /// Returns the actions, in order.
  ///
  /// - Throws: ``FlowLineError`` if there are too many flows.
  mutating func apply(_ line: FlowLine) throws(FlowLineError) -> [Action] {
    switch line {
    case .remove(let id):
      return self.removal(of: id)
    case .add(let id, let connection):
      let removal = self.removal(of: id)
      guard self.flows.count < self.maxFlows else {
        throw FlowLineError(
          id, "at most \(self.maxFlows) connections are guarded", name: connection.name)
      }
      self.lastKey += 1
      self.flows[self.lastKey] = Flow(id: id, connection: connection)
      self.keys[id] = self.lastKey
      return removal + [.add(key: self.lastKey, connection)]
    }
  }

  private mutating func removal(of id: UInt64) -> [Action] {
    guard let key = self.keys[id] else { return [] }
    self.end(key)
    return [.remove(key: key)]
  }

  /// Forgets a flow that connd guards no longer.
  mutating func end(_ key: UInt64) {
    guard let flow = self.flows.removeValue(forKey: key) else { return }
    if self.keys[flow.id] == key { self.keys[flow.id] = nil }
  }
}
