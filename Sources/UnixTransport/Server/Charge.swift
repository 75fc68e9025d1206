/// A resource of which each client may use a limited amount. The raw value is the limit's key.
package enum LimitedResource: String, Hashable, Sendable, CaseIterable {
  case connections, streams
  /// Queries to the kernel that are not answered yet.
  case questions
  /// Bytes that wait for a client or for connd.
  case pendingMemory
}

/// The amount of a resource that a client uses. It is released exactly once: at the latest when its
/// owner ends, because a charge cannot be copied.
package struct Charge: ~Copyable, Sendable {
  package private(set) var amount = 0
  private let resource: LimitedResource
  private let peer: PeerCredentials
  private let admission: any Admission

  /// Creates a charge of zero.
  package init(
    of resource: LimitedResource, by peer: PeerCredentials, _ admission: any Admission
  ) {
    (self.resource, self.peer, self.admission) = (resource, peer, admission)
  }

  /// - Throws: A refusal if the client may not use that much.
  package init(
    _ amount: Int, of resource: LimitedResource, by peer: PeerCredentials,
    _ admission: any Admission
  ) throws(Refusal) {
    self.init(of: resource, by: peer, admission)
    try self.grow(to: amount)
  }

  deinit {
    if self.amount > 0 { self.admission.release(self.amount, of: self.resource, by: self.peer) }
  }

  /// Increases the amount. A smaller amount changes nothing.
  ///
  /// - Throws: A refusal if the client may not use that much. Then nothing changes.
  package mutating func grow(to amount: Int) throws(Refusal) {
    guard amount > self.amount else { return }
    try self.admission.admit(amount - self.amount, of: self.resource, by: self.peer)
    self.amount = amount
  }

  /// Decreases the amount. A greater amount changes nothing.
  package mutating func shrink(to amount: Int) {
    guard amount < self.amount else { return }
    self.admission.release(self.amount - amount, of: self.resource, by: self.peer)
    self.amount = amount
  }
}
