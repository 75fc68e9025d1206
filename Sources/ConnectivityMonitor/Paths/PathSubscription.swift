private import Connectivity
internal import Logging
private import Synchronization

/// The task behind an iterator. It ends with the iterator, or with the task that reads.
final class PathSubscription: Sendable {
  private let mailbox: PathMailbox
  private let task: Task<Void, Never>
  private let logger: Logger?

  init(_ monitor: PathMonitor) {
    let mailbox = PathMailbox()
    let access = monitor.access
    self.mailbox = mailbox
    self.logger = monitor.logger
    self.task = Task(executorPreference: Connector.shared.executor) {
      await monitor.follow { paths in mailbox.put(paths.map { $0.limited(to: access) }) }
      mailbox.finish()
    }
  }

  deinit { self.end() }

  /// Returns the next path, or `nil` when the task was cancelled, which ends the subscription. At
  /// most one task may wait.
  func next(isolation: isolated (any Actor)? = #isolation) async -> NetworkPath? {
    let path = await withTaskCancellationHandler {
      await self.mailbox.next(isolation: isolation)
    } onCancel: {
      self.end()
    }
    if let path { self.logger?.debug("the path is known", metadata: ["path": "\(path)"]) }
    return path
  }

  private func end() {
    self.task.cancel()
    self.mailbox.finish()
  }
}

extension PathMonitor {
  /// The monitor without access rules.
  package var unlimited: PathMonitor {
    PathMonitor(
      self.subject, socket: self.socket, maxWait: self.maxWait, logger: self.logger)
  }

  /// Passes the path's states to `put`, regardless of access rules, until the task is cancelled.
  ///
  /// Must run on ``Connector/executor``, and calls `put` there.
  package func follow(_ put: @escaping @Sendable ([NetworkPath]) -> Void) async {
    let connector = Connector.shared
    let teller = PathTeller(maxWait: self.maxWait, connector.thread.timer(after:_:), put)
    switch self.subject {
    case .system:
      let reader = Mutex(StatusReader())
      let follower = StatusFollower(
        socket: self.socket.path, through: connector, kinds: [.transition, .path, .dns],
        of: ProcessNamespace.own, logger: self.logger)
      try? await follower.run { event in
        if let event = reader.withLock({ $0.read(event) }) { teller.tell(event) }
      }
    case .destination(let destination, let mark, let link):
      let path = FollowedPath(to: destination, mark: mark, via: link)
      let follower = Follower(
        path, socket: self.socket.path, through: connector, of: ProcessNamespace.own,
        logger: self.logger)
      try? await follower.run { teller.tell($0) }
    }
    teller.finish()
  }
}
