import Connectivity
import ConnectivityMonitor
import LinuxSupport
import Logging
import Netlink

/// Adjusts the kernel's endpoints to the paths that connd reports.
///
/// Implements rules M2, M3 and M6.
struct EndpointKeeper {
  let requester: MultipathRequester
  let routing: Requester
  var store: EndpointStore
  let adopts: Bool
  let logger: Logger
  // The last logged states, so that only changes are logged.
  private var isDenied = false
  private var complained: Set<EndpointPlan.Place> = []
  private var excluded: [EndpointPlan.Place: EndpointPlan.Exclusion] = [:]

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
  mutating func plan(_ table: UplinkTable) throws(NetlinkError) -> EndpointPlan {
    let endpoints = try self.readEndpoints()
    let own = self.store.endpoints
    let plan = EndpointPlan(table.uplinks, endpoints, own: own, adopts: self.adopts)
    guard plan.needsSubflows, let subflows = self.subflows() else { return plan }
    return EndpointPlan(
      table.uplinks, endpoints, own: own, adopts: self.adopts, subflows: subflows)
  }

  /// Makes the changes that are due.
  ///
  /// - Returns: Whether further changes may be due later without a notification.
  /// - Throws: An error if netlink fails, or this process may not change endpoints. The failure of
  ///   a single change is logged, and the change is due again.
  mutating func apply(_ table: UplinkTable) throws(NetlinkError) -> Bool {
    let plan = try self.plan(table)
    for action in plan.actions {
      do throws(NetlinkError) {
        // The kernel tries to add subflows only once, as soon as it has the endpoint. An unanswered
        // neighbour entry would make the subflows fail (M3).
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
    self.log(plan)
    return plan.mustLookAgain
  }

  /// Deletes all endpoints that this program made.
  mutating func removeAll() throws(NetlinkError) {
    for endpoint in try self.readEndpoints() where self.store.endpoints.contains(endpoint.asMade) {
      try self.make(.delete(endpoint))
    }
  }

  /// Lists the endpoints, and forgets this program's endpoints that are gone.
  private mutating func readEndpoints() throws(NetlinkError) -> [MultipathEndpoint] {
    let endpoints = try self.requester.endpoints()
    self.keep { (store) throws(StoreError) in try store.compare(with: endpoints) }
    return endpoints
  }

  /// Returns the subflows of all connections, or `nil` if the kernel cannot be asked.
  private func subflows() -> [EndpointPlan.Subflow]? {
    do throws(NetlinkError) {
      var subflows: [EndpointPlan.Subflow] = []
      let dump = try SocketDump(.subflows)
      while let part = try dump.next() { subflows += part.compactMap { .init($0) } }
      return subflows
    } catch {
      self.logger.warning("endpoints stay, because subflows are unknown: \(error)")
      return nil
    }
  }

  private mutating func make(_ action: EndpointPlan.Action) throws(NetlinkError) {
    switch action {
    case .delete(let endpoint):
      try self.requester.delete(endpoint)
      self.keep { (store) throws(StoreError) in try store.remove(endpoint) }
    case .add(let endpoint):
      // Stored first, so that the endpoint never counts as another program's.
      self.keep { (store) throws(StoreError) in try store.insert(endpoint) }
      do throws(NetlinkError) {
        try self.requester.add(endpoint)
      } catch {
        self.keep { (store) throws(StoreError) in try store.remove(endpoint) }
        throw error
      }
      _ = try self.readEndpoints()
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

  private mutating func log(_ plan: EndpointPlan) {
    if plan.isDenied, !self.isDenied {
      self.logger.notice("traffic leaves by a tunnel or a route of its own: no endpoints")
    }
    self.isDenied = plan.isDenied
    for endpoint in plan.unflagged where self.complained.insert(endpoint.place).inserted {
      self.logger.warning(
        "\(endpoint.text) belongs to another program and is not a backup (set adopt: true)")
    }
    for (place, exclusion) in plan.excluded where self.excluded[place] != exclusion {
      let endpoint = MultipathEndpoint(place.address, link: place.link, [])
      switch exclusion {
      case .noMoreEndpoints:
        self.logger.warning(
          "no endpoint for \(endpoint.text): the kernel has at most \(EndpointPlan.maxEndpoints)")
      case .objection(let reason):
        self.logger.notice("no endpoint for \(endpoint.text): \(reason.text)")
      }
    }
    self.excluded = plan.excluded
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

extension OtherWay.Reason {
  /// Why a link has no endpoint, as a text.
  fileprivate var text: String {
    switch self {
    case .strictFilter: "rp_filter drops the answers"
    case .roaming: "the modem roams"
    case .constrained: "data is saved on it"
    case .expensive: "it may cost money (connctl assist on)"
    case .switchedOff: "connctl assist is off"
    default: self.rawValue
    }
  }
}
