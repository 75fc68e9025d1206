package import Connectivity

/// The default paths as one reading of the kernel shows them.
///
/// Implements rule T5.
package struct Observation: Hashable, Sendable {
  package var ipv4: CandidatePath
  package var ipv6: CandidatePath

  package init(ipv4: CandidatePath, ipv6: CandidatePath) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
  }

  package subscript(family: AddressFamily) -> CandidatePath {
    get { family == .ipv4 ? self.ipv4 : self.ipv6 }
    set { if family == .ipv4 { self.ipv4 = newValue } else { self.ipv6 = newValue } }
  }

  /// The observation while the kernel is unavailable (K8).
  package static let unknown = Observation(
    ipv4: CandidatePath(.unknown), ipv6: CandidatePath(.unknown))
}

/// A path and the routing table entry that it came from.
package struct CandidatePath: Hashable, Sendable {
  package var path: KernelPath
  /// The table entry. Not published, and only used to recognise the message that removes it.
  package var route: MatchedRoute?
  /// The prefix lengths of the source address on the out-link. The kernel keeps an entry for each
  /// length. Empty if unknown.
  package var sourcePrefixLengths: Set<Int>
  /// How often each link of the path has lost its carrier, by link index, as far as the kernel
  /// reports it.
  package var carrierDownCounts: [UInt32: UInt32]
  /// The number of certain links, counted from the top, or `nil` if all are certain.
  package var knownLinks: Int?

  package init(
    _ path: KernelPath, route: MatchedRoute? = nil, sourcePrefixLengths: Set<Int> = [],
    carrierDownCounts: [UInt32: UInt32] = [:], knownLinks: Int? = nil
  ) {
    self.path = path
    self.route = route
    self.sourcePrefixLengths = sourcePrefixLengths
    self.carrierDownCounts = carrierDownCounts
    self.knownLinks = knownLinks
  }

  /// Whether traffic flows as before, and only connd's knowledge of the path differs: the kind of a
  /// link, or a switch's port.
  func isSameRoute(as before: CandidatePath) -> Bool {
    let known = min(self.knownLinks ?? .max, before.knownLinks ?? .max)
    return self.path.status == .satisfied && before.path.status == .satisfied
      && self.path.source == before.path.source && self.path.gateway == before.path.gateway
      && self.path.table == before.path.table
      && self.path.chain.prefix(known) == before.path.chain.prefix(known)
  }
}

/// The reason why the kernel was read again.
package enum ReadTrigger: Hashable, Sendable {
  /// Kernel messages, in their order.
  case events([KernelEvent])
  /// connd started, so there was no earlier reading.
  case start
  /// The configuration was read again.
  case configuration
  /// A requested deadline has passed.
  case timer
  /// The kernel's answer has expired (D9).
  case expiry
  /// The kernel became unavailable, for this reason.
  case kernelLost(String)
  /// The kernel is available again.
  case kernelBack
  /// The machine resumed after sleeping for this time.
  case resumed(Duration)
  /// ModemManager reports a change of a link.
  case modem(ModemChange)
  /// A user's override was set or has ended. Contains the cause to report.
  case override(ChangeCause)
  /// NetworkManager or a lease reports other costs of links.
  case metering
  /// NetworkManager, a router or systemd-networkd reports other validations of links.
  case validation
  /// A link's quality has changed for at least one user (Q2).
  case quality
}

extension ReadTrigger {
  /// The cause, or `nil` if kernel messages and paths determine it. If messages were lost, none of
  /// the received messages can be the cause.
  var cause: ChangeCause? {
    switch self {
    case .start: ChangeCause(.start, "started", learntLate: true)
    case .configuration: ChangeCause(.configuration, "reloaded")
    case .kernelLost: ChangeCause(.kernel, "kernelUnavailable")
    case .kernelBack: ChangeCause(.kernel, "kernelAvailable", learntLate: true)
    case .resumed: ChangeCause(.sleep, "resumed")
    case .modem(let modem): ChangeCause(.modem, modem.change, interface: modem.interface)
    case .expiry: ChangeCause(.timer, "routeExpired")
    case .override(let cause): cause
    case .metering: ChangeCause(.metering, "meteringChanged")
    case .validation: ChangeCause(.validation, "validationChanged")
    case .quality: ChangeCause(.quality, "qualityChanged")
    case .events(let events) where events.contains(.overrun): .overrun
    case .events, .timer: nil
    }
  }
}

extension ReadTrigger {
  /// Whether connd's start, or a source of link facts other than the kernel, caused the reading.
  var isOfOtherSource: Bool {
    switch self {
    case .modem, .configuration, .start: true
    case .events, .timer, .expiry, .kernelLost, .kernelBack, .resumed, .override, .metering,
      .validation, .quality:
      false
    }
  }
}

extension ChangeCause {
  /// The cause after lost messages. The time of the change is unknown.
  static let overrun = ChangeCause(.overrun, "resynchronised", learntLate: true)
}

extension ModemChange {
  fileprivate var change: String {
    switch self.kind {
    case .connected: "modemConnected"
    case .disconnected: "modemDisconnected"
    case .suspended: "modemSuspended"
    case .resumed: "modemResumed"
    case .technologyChanged: "modemTechnologyChanged"
    case .moved: "modemMoved"
    }
  }
}
