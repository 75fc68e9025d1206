import Connectivity
import ConnectivityMonitor
import Glibc
import Logging
import Netlink

/// The program's loop: after each change, reads the current state and adjusts the endpoints.
struct EndpointService {
  let socket: ConndSocket
  let watcher: UplinkWatcher
  let links: Requester

  init(_ socket: ConndSocket, on executor: any TaskExecutor) throws {
    self.socket = socket
    self.links = try Requester()
    self.watcher = UplinkWatcher(socket, on: executor)
    try self.watcher.watchLinks()
  }

  /// Adjusts the endpoints until netlink fails.
  func run(_ keeper: EndpointKeeper) async throws {
    var keeper = keeper
    var permission = EndpointPlan.Permission.postponed
    for await _ in self.watcher.changes {
      self.watcher.follow(try self.links.links())
      guard !self.watcher.table.isUnknown else { continue }
      // Lost endpoints are deleted before the query, because connections wait for the deletion.
      try keeper.apply(self.watcher.table, permission == .granted ? .postponed : permission)
      permission = await self.permission()
      try keeper.apply(self.watcher.table, permission)
    }
    throw NetlinkError(operation: "read notifications", code: EIO)
  }

  /// Returns the changes that would be made now.
  func dryRun(_ keeper: EndpointKeeper) async throws -> EndpointPlan {
    for await _ in self.watcher.changes {
      self.watcher.follow(try self.links.links())
      guard self.watcher.table.isComplete else { continue }
      if self.watcher.table.isUnknown { throw ConndError.notThere("connd does not answer") }
      return try keeper.plan(self.watcher.table, await self.permission())
    }
    throw NetlinkError(operation: "read notifications", code: EIO)
  }

  /// Returns whether traffic may use other links than the default path's (W5).
  private func permission() async -> EndpointPlan.Permission {
    let table = self.watcher.table
    let families = table.usedFamilies
    var isPostponed = !table.isComplete || families.isEmpty
    for family in families {
      guard let probe = UplinkWatcher.probes[family] else { continue }
      let candidate = await Connector.shared.otherWay(to: probe, port: 443, at: self.socket.path)
      switch candidate?.whyNot {
      case .tunnel, .ownRoute: return .denied
      case .noDefaultPath: isPostponed = true
      default: if candidate == nil { isPostponed = true }
      }
    }
    return isPostponed ? .postponed : .granted
  }
}
