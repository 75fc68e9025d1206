internal import ConnectivitySession
private import Synchronization

/// The task behind an iterator. It ends with the iterator, or with the task that reads.
final class PathSubscription: Sendable {
  private let mailbox: PathMailbox
  private let task: Task<Void, Never>

  init(_ monitor: PathMonitor) {
    let mailbox = PathMailbox()
    let access = monitor.access
    self.mailbox = mailbox
    self.task = Task(executorPreference: EventLoopTaskExecutor(ClientThread.eventLoop)) {
      await monitor.follow { paths in mailbox.put(paths.map { $0.limited(to: access) }) }
      mailbox.finish()
    }
  }

  deinit { self.end() }

  /// Returns the next path, or `nil` when the task was cancelled, which ends the subscription. At
  /// most one task may wait.
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

extension PathMonitor {
  /// The monitor without access rules.
  var unlimited: PathMonitor {
    PathMonitor(self.subject, socket: self.socket, patience: self.patience)
  }

  /// Passes the path's states to `put`, whatever the application may use, until the task is
  /// cancelled.
  ///
  /// Runs on ``ClientThread``, and calls `put` there.
  func follow(_ put: @escaping @Sendable ([NetworkPath]) -> Void) async {
    let teller = PathTeller(patience: self.patience, on: ClientThread.eventLoop, put)
    switch self.subject {
    case .system:
      let reader = Mutex(StatusReader())
      let follower = StatusFollower(
        socket: self.socket, through: NIODialler(), kinds: [.transition, .path, .dns])
      try? await follower.run { event in
        if let event = reader.withLock({ $0.read(event) }) { teller.tell(event) }
      }
    case .destination(let destination, let mark):
      let stream = PathStream(to: destination, mark: mark, socket: self.socket)
      try? await stream.run(teller.tell)
    }
    teller.finish()
  }
}
