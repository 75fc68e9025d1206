import DequeModule
import GRPCCore
import LinuxSupport
import Synchronization

/// Limits how many calls of each account run at a time. Further calls wait in order of arrival.
/// Safe to use from any thread.
///
/// Implements rule D4.
final class AccountTurns: Sendable {
  /// The turn of a call.
  final class Turn: Sendable {
    private let hasLeft = Atomic(false)

    /// Whether the client has cancelled the call.
    var isCancelled: Bool { self.hasLeft.load(ordering: .relaxed) }

    func cancel() { self.hasLeft.store(true, ordering: .relaxed) }
  }

  private struct Waiter {
    var turn: Turn
    /// Resumed with `true` when the turn comes, or with `false` if the client cancels.
    var continuation: CheckedContinuation<Bool, Never>
  }

  private struct Queue {
    var running = 0
    var waiters: Deque<Waiter> = []
  }

  private let maxRunning: Int
  private let queues = Mutex<[Account: Queue]>([:])

  init(maxRunning: Int) {
    self.maxRunning = maxRunning
  }

  /// The number of calls that run or wait.
  var count: Int {
    self.queues.withLock { $0.values.reduce(0) { $0 + $1.running + $1.waiters.count } }
  }

  /// Runs the work of a call when its turn comes.
  ///
  /// - Throws: `CancellationError` if the client leaves before the turn, or what the work throws.
  func run<Answer>(
    for account: Account, _ turn: Turn = Turn(), _ work: (Turn) async throws -> Answer
  ) async throws -> Answer {
    try await withRPCCancellationHandler {
      guard await self.begin(turn, account) else { throw CancellationError() }
      defer { self.end(account) }
      return try await work(turn)
    } onCancelRPC: {
      self.cancel(turn, account)
    }
  }

  /// Cancels a waiting call because its client has left.
  func cancel(_ turn: Turn, _ account: Account) {
    // Cancels before taking the lock, so that a call that is about to wait sees the cancellation.
    turn.cancel()
    let waiter = self.queues.withLock { queues -> Waiter? in
      guard let place = queues[account]?.waiters.firstIndex(where: { $0.turn === turn }) else {
        return nil
      }
      return queues[account]?.waiters.remove(at: place)
    }
    waiter?.continuation.resume(returning: false)
  }

  private func begin(_ turn: Turn, _ account: Account) async -> Bool {
    await withCheckedContinuation { continuation in
      let begins = self.queues.withLock { queues -> Bool? in
        if turn.isCancelled { return false }
        if queues[account, default: Queue()].running < self.maxRunning {
          queues[account, default: Queue()].running += 1
          return true
        }
        queues[account]?.waiters.append(Waiter(turn: turn, continuation: continuation))
        return nil
      }
      if let begins { continuation.resume(returning: begins) }
    }
  }

  /// Passes the turn to the next call of the account.
  private func end(_ account: Account) {
    let next = self.queues.withLock { queues -> Waiter? in
      if let next = queues[account]?.waiters.popFirst() { return next }
      queues[account]?.running -= 1
      if queues[account]?.running == 0 { queues[account] = nil }
      return nil
    }
    next?.continuation.resume(returning: true)
  }
}
