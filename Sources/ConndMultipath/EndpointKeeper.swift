import Connectivity
import ConnectivityMonitor
import LinuxSupport
import Logging
import Netlink

/// Adjusts the kernel's endpoints to the paths that connd reports.
///
/// Implements rules M2 and M3.
struct EndpointKeeper {
  let requester: MultipathRequester
  let routing: Requester
  var store: EndpointStore
  let adopts: Bool
  let logger: Logger
  /// The last permission, so that only changes are logged.
  private var lastPermission: EndpointPlan.Permission?
  /// The endpoints of other programs whose missing flag `backup` has been logged.
  private var complained: Set<EndpointPlan.Place> = []

  init(
    _ requester: MultipathRequester, _ routing: Requester, _ store: EndpointStore, adopts: Bool,
    logger: Logger
  ) {
    (self.requester, self.routing) = (requester, routing)
    self.store = store
    self.adopts = adopts
    self.logger = logger
  }

  /// Returns the changes that are due.
  func plan(
    _ table: UplinkTable, _ permission: EndpointPlan.Permission
  ) throws(NetlinkError) -> EndpointPlan {
    EndpointPlan(
      table.uplinks, try self.requester.endpoints(), own: self.store.places, adopts: self.adopts,
      permission)
  }

  /// Makes the changes that are due.
  ///
  /// - Throws: An error if netlink fails, or this process may not change endpoints. The failure of
  ///   a single change is logged, and the change is due again.
  mutating func apply(
    _ table: UplinkTable, _ permission: EndpointPlan.Permission
  ) throws(NetlinkError) {
    if permission != self.lastPermission {
      self.lastPermission = permission
      if permission == .denied {
        self.logger.notice("traffic leaves by a tunnel or a route of its own: no endpoints")
      }
    }
    let plan = try self.plan(table, permission)
    for action in plan.actions {
      do throws(NetlinkError) {
        // The kernel tries to add subflows only once, as soon as it has the endpoint. An unanswered
        // neighbour entry would make them fail (M3).
        if case .add(let endpoint) = action, let gateway = table.gateway(of: endpoint.place) {
          try self.routing.forgetUnanswered(gateway, on: endpoint.link)
        }
        try self.make(action)
        self.logger.notice("\(action.text)")
      } catch {
        if error.isPermission { throw error }
        self.logger.warning("\(action.text) failed: \(error)")
      }
    }
    for endpoint in plan.unflagged where self.complained.insert(endpoint.place).inserted {
      self.logger.warning(
        "\(endpoint.text) belongs to another program and is not a backup (set adopt: true)")
    }
  }

  /// Deletes all endpoints that this program made.
  mutating func removeAll() throws(NetlinkError) {
    for endpoint in try self.requester.endpoints() where self.store.places.contains(endpoint.place)
    {
      try self.make(.delete(endpoint))
    }
  }

  private mutating func make(_ action: EndpointPlan.Action) throws(NetlinkError) {
    switch action {
    case .delete(let endpoint):
      try self.requester.delete(endpoint)
      self.keep { (store) throws(StoreError) in try store.remove(endpoint.place) }
    case .add(let endpoint):
      // Stored first, so that the endpoint never counts as another program's.
      self.keep { (store) throws(StoreError) in try store.insert(endpoint.place) }
      do throws(NetlinkError) {
        try self.requester.add(endpoint)
      } catch {
        self.keep { (store) throws(StoreError) in try store.remove(endpoint.place) }
        throw error
      }
    case .setBackup(let isBackup, let endpoint):
      try self.requester.setBackup(isBackup, of: endpoint)
    }
  }

  private mutating func keep(_ change: (inout EndpointStore) throws(StoreError) -> Void) {
    do throws(StoreError) {
      try change(&self.store)
    } catch {
      self.logger.warning("\(error)")
    }
  }
}

extension EndpointPlan.Action {
  /// The change as a text, with the terms of `ip mptcp endpoint`.
  var text: String {
    switch self {
    case .delete(let endpoint): "delete \(endpoint.text)"
    case .add(let endpoint): "add \(endpoint.text)"
    case .setBackup(true, let endpoint): "set backup of \(endpoint.text)"
    case .setBackup(false, let endpoint): "clear backup of \(endpoint.text)"
    }
  }
}

extension MultipathEndpoint {
  var text: String {
    var parts = ["\(self.address)"]
    if self.id != 0 { parts.append("id \(self.id)") }
    if self.link != 0 { parts.append("dev \(linkName(self.link) ?? "#\(self.link)")") }
    if self.flags.contains(.backup) { parts.append("backup") }
    return parts.joined(separator: " ")
  }
}
