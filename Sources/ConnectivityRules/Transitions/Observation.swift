package import Connectivity

/// What one reading of the kernel shows of the default paths.
package struct Observation: Hashable, Sendable {
  package var ipv4: ObservedPath
  package var ipv6: ObservedPath

  package init(ipv4: ObservedPath, ipv6: ObservedPath) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
  }

  /// The path of a family.
  package subscript(family: AddressFamily) -> ObservedPath {
    get { family == .ipv4 ? self.ipv4 : self.ipv6 }
    set { if family == .ipv4 { self.ipv4 = newValue } else { self.ipv6 = newValue } }
  }

  /// The kernel cannot be asked (K8).
  package static let unknown = Observation(
    ipv4: ObservedPath(.unknown), ipv6: ObservedPath(.unknown))
}

/// A path, and the entry of the routing table that it came from.
package struct ObservedPath: Hashable, Sendable {
  package var path: Path
  /// Not published: it only serves to recognise the message that this route was removed.
  package var route: MatchedRoute?
  /// The lengths of the prefixes with which the out-link has the source address: the kernel keeps an entry for each.
  /// Empty if they are not known.
  package var sourcePrefixLengths: Set<Int>
  /// How often each link of the path has lost its carrier, by its index, as far as the kernel says.
  package var carrierDownCounts: [UInt32: UInt32]
  /// How many links of the path from the top are known for certain; `nil` if all are.
  package var knownLinks: Int?

  package init(
    _ path: Path, route: MatchedRoute? = nil, sourcePrefixLengths: Set<Int> = [],
    carrierDownCounts: [UInt32: UInt32] = [:], knownLinks: Int? = nil
  ) {
    self.path = path
    self.route = route
    self.sourcePrefixLengths = sourcePrefixLengths
    self.carrierDownCounts = carrierDownCounts
    self.knownLinks = knownLinks
  }

  /// Whether traffic flows the way that it flowed before, and only what is known of that way is another: what a link is, or by
  /// which of its ports a switch sends.
  func isSameWay(as before: ObservedPath) -> Bool {
    let known = min(self.knownLinks ?? .max, before.knownLinks ?? .max)
    return self.path.status == .satisfied && before.path.status == .satisfied
      && self.path.source == before.path.source && self.path.gateway == before.path.gateway
      && self.path.table == before.path.table
      && self.path.chain.prefix(known) == before.path.chain.prefix(known)
  }
}

/// Why the kernel was read again.
package enum Occasion: Hashable, Sendable {
  /// What the kernel told, in its order.
  case events([KernelEvent])
  /// connd started; there was no reading before.
  case start
  /// The configuration was read again.
  case configuration
  /// A deadline that was handed back has come.
  case timer
  /// What the kernel said was to hold until now (D9).
  case expiry
  /// The kernel could not be asked, for the reason given.
  case kernelLost(String)
  /// The kernel could not be asked, and can be again.
  case kernelBack
  /// The machine slept for so long, and woke.
  case resumed(Duration)
  /// ModemManager says something else of a link.
  case modem(ModemChange)
  /// A user has said what a link or a network costs, or that is over; with the cause of what follows.
  case choice(Cause)
  /// NetworkManager or a lease says something else of what links cost.
  case metering
}

extension Occasion {
  /// What is to blame whatever the paths show; `nil` where they and the messages about them tell. Where messages were
  /// lost, none can be blamed.
  var cause: Cause? {
    switch self {
    case .start: Cause(.start, "started", learntLate: true)
    case .configuration: Cause(.configuration, "reloaded")
    case .kernelLost: Cause(.kernel, "kernelUnavailable")
    case .kernelBack: Cause(.kernel, "kernelAvailable", learntLate: true)
    case .resumed: Cause(.sleep, "resumed")
    case .modem(let modem): Cause(.modem, modem.change, interface: modem.interface)
    case .expiry: Cause(.timer, "routeExpired")
    case .choice(let cause): cause
    case .metering: Cause(.metering, "meteringChanged")
    case .events(let events) where events.contains(.overrun): .overrun
    case .events, .timer: nil
    }
  }
}

extension Occasion {
  /// Whether not the kernel said something, but another source of what links are, or connd has just started.
  var isOfOtherSource: Bool {
    switch self {
    case .modem, .configuration, .start: true
    case .events, .timer, .expiry, .kernelLost, .kernelBack, .resumed, .choice, .metering: false
    }
  }
}

extension Cause {
  /// Messages were lost: what is found now happened at some time since.
  static let overrun = Cause(.overrun, "resynchronised", learntLate: true)
}

extension ModemChange {
  fileprivate var change: String {
    switch self.kind {
    case .connected: "modemConnected"
    case .disconnected: "modemDisconnected"
    case .suspended: "modemSuspended"
    case .resumed: "modemResumed"
    case .moved: "modemMoved"
    }
  }
}
