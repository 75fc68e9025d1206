import Synchronization

/// Counts the bytes that connd keeps for a call. Safe to use from any thread.
///
/// Each call may use a small amount without admission, so that ordinary calls work however much
/// memory others use. More must be admitted.
///
/// Implements rule D4.
package final class CallMemory: Sendable {
  package static let free = 4 << 10

  package enum Part {
    /// Received and not yet processed.
    case requests
    /// Not yet accepted by the client.
    case answers
  }

  private struct State: ~Copyable {
    var requests = 0
    var answers = 0
    var charge: Charge
    var isClosed = false
  }

  private let state: Mutex<State>

  package init(of peer: PeerCredentials, _ admission: any Admission) {
    self.state = Mutex(State(charge: Charge(of: .pendingMemory, by: peer, admission)))
  }

  /// Changes the number of bytes kept. A decrease never fails.
  ///
  /// - Throws: A refusal if the client may not use that much memory. Then nothing changes.
  package func set(_ part: Part, to bytes: Int) throws(Refusal) {
    try self.state.withLock { (state) throws(Refusal) in
      guard !state.isClosed else { return }
      let other = part == .requests ? state.answers : state.requests
      let needed = max(0, bytes + other - Self.free)
      try state.charge.grow(to: needed)
      state.charge.shrink(to: needed)
      if part == .requests { state.requests = bytes } else { state.answers = bytes }
    }
  }

  /// Releases the memory, because the call has ended.
  package func close() {
    self.state.withLock { state in
      state.charge.shrink(to: 0)
      state.isClosed = true
    }
  }
}
