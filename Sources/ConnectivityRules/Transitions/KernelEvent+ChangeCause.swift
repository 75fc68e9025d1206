package import Connectivity

extension KernelEvent {
  /// The cause that the message describes, for people and the history (T5).
  var cause: ChangeCause {
    switch self {
    case .link(let link):
      ChangeCause(.link, link.change, message: "RTM_NEWLINK", interface: link.name)
    case .linkRemoved(let link):
      ChangeCause(.link, "linkRemoved", message: "RTM_DELLINK", interface: link.name)
    case .address(let address):
      ChangeCause(.address, address.change, message: "RTM_NEWADDR")
    case .addressRemoved:
      ChangeCause(.address, "addressRemoved", message: "RTM_DELADDR")
    case .route(_, let replaced):
      ChangeCause(.route, replaced ? "routeReplaced" : "routeAdded", message: "RTM_NEWROUTE")
    case .routeRemoved:
      ChangeCause(.route, "routeRemoved", message: "RTM_DELROUTE")
    case .rule: ChangeCause(.rule, "ruleAdded", message: "RTM_NEWRULE")
    case .ruleRemoved: ChangeCause(.rule, "ruleRemoved", message: "RTM_DELRULE")
    case .nexthop: ChangeCause(.nexthop, "nexthopChanged", message: "RTM_NEWNEXTHOP")
    case .nexthopRemoved: ChangeCause(.nexthop, "nexthopRemoved", message: "RTM_DELNEXTHOP")
    case .neighbour: ChangeCause(.neighbour, "gatewayChanged", message: "RTM_NEWNEIGH")
    case .bridgeEntry: ChangeCause(.neighbour, "portChanged", message: "RTM_NEWNEIGH")
    case .wireless(let wireless):
      ChangeCause(.link, wireless.change, message: wireless.kind.rawValue)
    case .signal(let signal):
      ChangeCause(.quality, signal.change, message: "NL80211_CMD_NOTIFY_CQM")
    case .setting: ChangeCause(.route, "settingChanged", message: "RTM_NEWNETCONF")
    case .overrun: .overrun
    case .malformed: ChangeCause(.kernel, "malformedMessage")
    }
  }

  /// Returns the cause that the message describes. If the message has only a link's index, adds the
  /// name from either path.
  func cause(between old: KernelPath, _ new: KernelPath) -> ChangeCause {
    var cause = self.cause
    if cause.interface == nil, let index = self.linkIndex {
      cause.interface = (old.chain + new.chain).first { $0.index == index }?.name
    }
    return cause
  }

  /// The index of the link that the message concerns, or `nil` if the message names no link.
  private var linkIndex: UInt32? {
    switch self {
    case .link(let link), .linkRemoved(let link): link.index
    case .address(let address), .addressRemoved(let address): address.link
    case .route(let change, _), .routeRemoved(let change): change.outLink
    case .neighbour(let neighbour): neighbour.link
    case .bridgeEntry(let entry): entry.bridge ?? entry.port
    case .wireless(let change): change.link
    case .signal(let change): change.link
    case .rule, .ruleRemoved, .nexthop, .nexthopRemoved, .setting, .overrun, .malformed: nil
    }
  }

  /// Whether the message may explain the difference between two paths of an address family.
  func mayConcern(_ family: AddressFamily, _ old: KernelPath, _ new: KernelPath) -> Bool {
    func isInChain(_ index: UInt32?) -> Bool {
      old.chain.contains { $0.index == index } || new.chain.contains { $0.index == index }
    }
    // Translated IPv4 depends on IPv6 (K9).
    let isTranslated = old.isFromTranslator || new.isFromTranslator
    let families = isTranslated ? AddressFamily.allCases : [family]

    switch self {
    case .link(let link):
      return (link.hasReliableState || link.bridgePort != nil)
        && (isInChain(link.index) || isInChain(link.master))
    case .linkRemoved(let link):
      return isInChain(link.index) || isInChain(link.master)
    case .address(let address), .addressRemoved(let address):
      return families.contains(address.address.family)
        && (isInChain(address.link) || [old.source, new.source].contains(address.address))
    case .route(let change, _), .routeRemoved(let change):
      return families.contains(change.route.prefix.address.family)
        && (change.outLink == nil || isInChain(change.outLink))
    case .rule(let ruled), .ruleRemoved(let ruled), .setting(let ruled):
      return families.contains(ruled)
    case .bridgeEntry(let entry):
      return isInChain(entry.port) || isInChain(entry.bridge)
    case .wireless(let change):
      return isInChain(change.link)
    case .signal(let change):
      return isInChain(change.link)
    case .nexthop, .nexthopRemoved, .overrun:
      return true
    case .neighbour(let neighbour):
      // IPv6 prefers gateways that respond.
      return neighbour.address.family == family && isInChain(neighbour.link)
        && (old.gateway == neighbour.address || new.gateway == neighbour.address)
    case .malformed:
      return false
    }
  }

  /// Whether the message reports the loss of a part of a path. The loss is evidence of a bounce,
  /// even if the path came back immediately (T2).
  func indicatesLoss(_ observed: CandidatePath) -> Bool {
    let path = observed.path
    switch self {
    case .link(let link):
      return link.hasReliableState && link.state != .up && path.leads(over: link.index)
    case .linkRemoved(let link):
      return path.leads(over: link.index)
    case .address(let address):
      return !address.flags.isUsable && path.leaves(from: address)
    case .addressRemoved(let address):
      return path.leaves(from: address)
    case .routeRemoved(let change):
      guard change.route == observed.route else { return false }
      // Routes with several nexthops, or with nexthop objects, do not name a single link.
      guard let link = change.outLink, let first = path.chain.first else { return true }
      return link == first.index && change.gateway == path.gateway
    case .nexthopRemoved(let id):
      return observed.route?.nexthop == id
    case .route, .rule, .ruleRemoved, .nexthop, .neighbour, .bridgeEntry, .wireless, .signal,
      .setting, .overrun, .malformed:
      return false
    }
  }

  /// Whether the message adds the given entry to a routing table.
  func adds(_ route: MatchedRoute?) -> Bool {
    if case .route(let change, _) = self { change.route == route } else { false }
  }
}

extension [KernelEvent] {
  /// Returns the message that explains the message at an index. Before the kernel removes a link,
  /// it sets the link down, and sends a message for each step. Then the removal explains the loss.
  func explanation(ofMessageAt index: Int) -> KernelEvent {
    guard case .link(let lost) = self[index] else { return self[index] }
    let removal = self[index...].first { event in
      if case .linkRemoved(let link) = event { link.index == lost.index } else { false }
    }
    return lost.state == .up ? self[index] : removal ?? self[index]
  }

  /// Returns the cause of a path's change if no message reports its loss. The cause is the last
  /// message of a kind that explains the change, or else the last one that may concern the path.
  func cause(of family: AddressFamily, from old: KernelPath, to new: KernelPath) -> ChangeCause {
    let triggers = old.triggers(of: new)
    let concerning = self.lazy.filter { $0.mayConcern(family, old, new) }
    let telling = concerning.last { triggers.contains($0.cause.trigger) } ?? concerning.last
    // A reading may find a change before its message arrives. Then only the result is known.
    return telling?.cause(between: old, new)
      ?? ChangeCause(triggers[0], "pathChanged", interface: new.interface ?? old.interface)
  }
}

extension KernelPath {
  /// Whether the paths are equal, except perhaps in quality.
  fileprivate func isSame(as other: KernelPath) -> Bool {
    var other = other
    other.quality = self.quality
    return self == other
  }

  /// Returns the triggers that can explain a change to another path, the most likely first.
  fileprivate func triggers(of new: KernelPath) -> [ChangeCause.Trigger] {
    let routing: [ChangeCause.Trigger] = [.route, .rule, .nexthop]
    if let old = self.interface, let new = new.interface, old != new { return routing }
    if self.quality != new.quality, self.isSame(as: new) { return [.quality] }
    switch new.reason ?? self.reason {
    case .noRoute, .unreachable, .prohibited, .blackhole, .throw: return routing
    case .noCarrier, .dormant, .linkDown, .suspended: return [.link]
    case .noSourceAddress: return [.address]
    case .kernelUnavailable, .unsupported: return [.kernel]
    case nil:
      if self.gateway != new.gateway || self.table != new.table { return routing }
      return self.source != new.source ? [.address] : [.link]
    }
  }

  /// Whether the path certainly uses a link. Guessed links do not count.
  fileprivate func leads(over link: UInt32) -> Bool {
    self.certainChain.contains { $0.index == link }
  }

  /// Whether the address is the path's source address, as far as the path shows.
  func leaves(from address: Address) -> Bool {
    guard address.address == self.source else { return false }
    // The subnet is known only if the source address is on the out-link. Then the same address on
    // another link is not the source. Otherwise an address on another link may be the source:
    // unnumbered links borrow an address, and routers use an address of `lo`.
    return self.sourcePrefixLength == nil || address.link == self.chain.first?.index
  }
}

extension Link {
  /// Whether the message has reliable state. A wireless event has the name and outdated flags only,
  /// so without IFLA_CARRIER only "down" is reliable.
  package var hasReliableState: Bool { self.carrier != nil || self.state == .down }

  /// The change that the message describes, in one word.
  fileprivate var change: String {
    // A bridge's message about its port does not show the carrier.
    if self.carrier == nil, let port = self.bridgePort {
      return port.forwards ? "portForwards" : "portBlocks"
    }
    return switch self.state {
    case .down: "linkDown"
    case .noCarrier: "carrierLost"
    case .dormant: "dormant"
    case .up: "linkUp"
    }
  }
}

extension WirelessChange {
  fileprivate var change: String {
    switch self.kind {
    case .joined: "networkJoined"
    case .roamed: "networkRoamed"
    case .left: "networkLeft"
    case .made: "linkMade"
    case .removed: "linkRemoved"
    }
  }
}

extension SignalChange {
  fileprivate var change: String {
    switch self.kind {
    case .low: "signalLow"
    case .high: "signalHigh"
    case .framesLost: "framesLost"
    }
  }
}

extension Address {
  fileprivate var change: String {
    if self.flags.contains(.duplicate) { return "duplicateAddress" }
    return self.flags.contains(.tentative) ? "addressTentative" : "addressAdded"
  }
}

extension AddressFlags {
  /// Whether an address with these flags may be used as a source address (K3).
  fileprivate var isUsable: Bool {
    !self.contains(.duplicate) && (!self.contains(.tentative) || self.contains(.optimistic))
  }
}
