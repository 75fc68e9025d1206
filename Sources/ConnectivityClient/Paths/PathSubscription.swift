internal import ConnectivitySession
private import Synchronization

/// The task behind an iterator. It ends with the iterator, and with the task that reads.
final class PathSubscription: Sendable {
  private let mailbox: PathMailbox
  private let task: Task<Void, Never>

  init(
    to subject: PathMonitor.Subject, access: NetworkAccess, socket: String, patience: Duration
  ) {
    let mailbox = PathMailbox()
    let eventLoop = ClientThread.eventLoop
    self.mailbox = mailbox
    self.task = Task(executorPreference: EventLoopTaskExecutor(eventLoop)) {
      let teller = PathTeller(patience: patience, on: eventLoop) { paths in
        mailbox.put(paths.map { $0.limited(to: access) })
      }
      switch subject {
      case .system:
        let reader = Mutex(StatusReader())
        let follower = StatusFollower(
          socket: socket, through: NIODialler(), kinds: [.transition, .path, .dns])
        try? await follower.run { event in
          if let event = reader.withLock({ $0.read(event) }) { teller.tell(event) }
        }
      case .destination(let destination, let mark):
        let stream = PathStream(to: destination, mark: mark, socket: socket)
        try? await stream.run(teller.tell)
      }
      teller.finish()
      mailbox.finish()
    }
  }

  deinit { self.end() }

  /// The next path; `nil` when the task was cancelled, which ends the subscription. At most one task may wait.
  func next(isolation: isolated (any Actor)? = #isolation) async -> NetworkPath? {
    await withTaskCancellationHandler {
      await self.mailbox.next(isolation: isolation)
    } onCancel: {
      self.end()
    }
  }

  private func end() {
    self.task.cancel()
    self.mailbox.finish()
  }
}
