import ConnectivityMonitor
import Glibc
import Netlink

/// The program's loop: after each change, reads the current state and adjusts the endpoints.
struct EndpointService {
  let watcher: UplinkWatcher
  let links: Requester
  /// The interval of checks while a connection needs a lost endpoint.
  private static let interval = Duration.seconds(10)

  init(_ socket: ConndSocket, on executor: any TaskExecutor) throws {
    self.links = try Requester()
    self.watcher = UplinkWatcher(socket, on: executor)
  }

  /// Adjusts the endpoints until netlink fails.
  func run(_ keeper: EndpointKeeper) async throws {
    var keeper = keeper
    var timer: Task<Void, Never>?
    try self.watcher.listen()
    for await _ in self.watcher.changes {
      self.watcher.follow(try self.links.links())
      guard !self.watcher.table.isUnknown else { continue }
      timer?.cancel()
      let mustLookAgain = try keeper.apply(self.watcher.table)
      timer = mustLookAgain ? self.watcher.lookAgain(after: Self.interval) : nil
    }
    throw NetlinkError(operation: "read notifications", code: EIO)
  }

  /// Returns the changes that would be made now.
  func dryRun(_ keeper: EndpointKeeper) async throws -> EndpointPlan {
    var keeper = keeper
    self.watcher.follow(try self.links.links())
    for await _ in self.watcher.changes where self.watcher.table.isComplete {
      if self.watcher.table.isUnknown { throw ConndError.notAvailable("connd does not answer") }
      return try keeper.plan(self.watcher.table)
    }
    throw NetlinkError(operation: "read notifications", code: EIO)
  }
}
