private import Synchronization

/// Passes elements from one task to another, one at a time. The sender waits until its element is
/// taken.
///
/// Cancelling either side ends both, and so does ``finish()``.
package final class Handoff<Element: Sendable>: Sendable {
  private struct State {
    var offered: (element: Element, sender: CheckedContinuation<Bool, Never>)?
    var receiver: CheckedContinuation<Element?, Never>?
    var finished = false
  }

  private let state = Mutex(State())

  package init() {}

  /// Returns when the element was taken.
  ///
  /// - Throws: `CancellationError` if it will never be taken.
  package func send(_ element: Element) async throws(CancellationError) {
    let taken = await withTaskCancellationHandler {
      await withCheckedContinuation { (sender: CheckedContinuation<Bool, Never>) in
        let (receiver, done) = self.state.withLock {
          state -> (CheckedContinuation<Element?, Never>?, Bool?) in
          if state.finished { return (nil, false) }
          if let receiver = state.receiver {
            state.receiver = nil
            return (receiver, true)
          }
          state.offered = (element, sender)
          return (nil, nil)
        }
        receiver?.resume(returning: element)
        if let done { sender.resume(returning: done) }
      }
    } onCancel: {
      self.finish()
    }
    guard taken else { throw CancellationError() }
  }

  /// Returns the next element, or `nil` after the last one. At most one task may wait.
  package func next(isolation: isolated (any Actor)? = #isolation) async -> Element? {
    await withTaskCancellationHandler {
      await withCheckedContinuation { (receiver: CheckedContinuation<Element?, Never>) in
        let (offered, wait) = self.state.withLock {
          state -> ((element: Element, sender: CheckedContinuation<Bool, Never>)?, Bool) in
          if let offered = state.offered {
            state.offered = nil
            return (offered, false)
          }
          if state.finished || state.receiver != nil { return (nil, false) }
          state.receiver = receiver
          return (nil, true)
        }
        offered?.sender.resume(returning: true)
        if !wait { receiver.resume(returning: offered?.element) }
      }
    } onCancel: {
      self.finish()
    }
  }

  /// Ends the handoff.
  package func finish() {
    let (offered, receiver) = self.state.withLock { state in
      defer { (state.offered, state.receiver, state.finished) = (nil, nil, true) }
      return (state.offered, state.receiver)
    }
    offered?.sender.resume(returning: false)
    receiver?.resume(returning: nil)
  }
}
