import Connectivity

// Texts about the model for users.

extension NetworkCategory {
  var ink: TextStyle {
    switch self {
    case .offline: .bad
    case .unknown: .middling
    case .wifi, .cellular, .wired, .other: .good
    }
  }
}

extension KernelPath.Status {
  var text: String {
    self == .requiresConnection ? Text.tied("requires", "connection") : self.rawValue
  }

  var ink: TextStyle {
    switch self {
    case .satisfied: .good
    case .requiresConnection, .unknown: .middling
    case .unsatisfied: .bad
    }
  }
}

extension KernelPath {
  /// The text `vlan10 over bond0 over eth0`.
  var chainText: String {
    self.chain.first.map { ([$0.name] + self.lowerLinkNames).joined(separator: " ") } ?? ""
  }

  /// The texts `over bond0`, and `maybe over eth0` for a link that is a guess.
  private var lowerLinkNames: [String] {
    let certain = self.chain.count - self.guessedLinks
    return self.chain.enumerated().dropFirst().map { place, link in
      place < certain ? Text.tied("over", link.name) : Text.tied("maybe", "over", link.name)
    }
  }

  /// The reason if the path is not satisfied, the lower links, the source and the gateway, in one
  /// line.
  var details: String {
    let local = self.source?.isUniqueLocal ?? false ? "local addresses only" : nil
    let translated = self.isFromTranslator ? "translated IPv4" : nil
    return [self.reason?.text, self.route, local, translated].compactMap { $0 }
      .joined(separator: ", ")
  }

  /// The text `over eth0 from 192.0.2.7 via 192.0.2.1`, or `nil` if there is nothing to show.
  var route: String? {
    var details = self.lowerLinkNames
    if let source = self.source { details.append(Text.tied("from", source.description)) }
    if let gateway = self.gateway { details.append(Text.tied("via", gateway.description)) }
    return details.isEmpty ? nil : details.joined(separator: " ")
  }
}

extension ConnectivityStatus {
  /// The text `wifi via wlan0` or `none: wlan0 has no carrier`.
  var summary: String {
    if self.category == .offline { return "none: \(self.whyNot)" }
    var text = self.category.rawValue
    if self.category == .other { text += " (\(self.medium.rawValue))" }
    if let interface = self.interface { text += " via \(interface)" }
    return text
  }

  /// Why neither family has a path: the reason of the path that is closest to working.
  private var whyNot: String {
    let paths = AddressFamily.allCases.map { self[$0] }
    let path = paths.first { $0.status == .requiresConnection } ?? paths.first { $0.reason != nil }
    return path?.reason?.text(of: path?.interface) ?? "no path"
  }

  /// Whether the family has no route while the other one works, as IPv6 on many networks.
  func isUnused(_ family: AddressFamily) -> Bool {
    let path = self[family]
    return path.status == .unsatisfied && path.reason == .noRoute
      && AddressFamily.allCases.contains { self[$0].status == .satisfied }
  }

  /// The text `, metered, constrained, captive portal`. Empty if no traffic flows.
  var costs: String { self.category == .offline ? "" : self.path.costs }
}

extension KernelPath.Validation {
  /// The text `, captive portal`, or `, has a portal` if it is unknown whether the user has logged
  /// in. Empty if traffic reaches the internet, or nothing is known.
  var text: String {
    switch self.state {
    case .portal: ", captive portal"
    case .limited: ", no internet"
    case .full: ""
    case .unknown: self.portal == nil ? "" : ", has a portal"
    @unknown default: ""
    }
  }

  /// The text `captive portal: NetworkManager says so, https://…`, or `nil` if nothing is known.
  var explanation: String? {
    let state: String? =
      switch self.state {
      case .portal: "captive portal"
      case .limited: "not reached"
      case .full: "reached"
      case .unknown: self.portal == nil ? nil : "not checked, but the network has a portal"
      @unknown default: nil
      }
    let source: String? =
      switch self.source {
      case .networkManager: "NetworkManager says so"
      case .routerAdvertisement: "the router says so"
      case .networkd: "systemd-networkd says so"
      case nil: nil
      @unknown default: nil
      }
    guard let state, let source else { return nil }
    return "\(state): \(source)" + (self.portal.map { ", \($0.printable)" } ?? "")
  }
}

extension ChangeCause {
  /// The text `carrier lost on wlan0 (RTM_NEWLINK)`, or `metered set on wlan0, by root`.
  var text: String {
    guard self.trigger == .user else { return self.text { Text.tied($0, $1) } }
    var cause = self
    cause.change = Self.overrideWords[self.change] ?? self.change
    cause.message = nil
    return cause.text { Text.tied($0, $1) } + self.byUser
  }

  /// The text `, by root`, or empty if no user caused the change.
  var byUser: String { self.message.map { ", by \(UserName.inText($0))" } ?? "" }

  /// The words for users' overrides.
  private static let overrideWords = [
    "constrainedSet": "constrained set", "expensiveSet": "metered set", "assistSet": "assist set",
    "choiceForgotten": "override removed", "choiceEnded": "override ended",
  ]
}

extension Invalidation.Severity {
  /// The consequence for connections, in `watch`, `history`, `top`, `guard` and `connections`.
  var text: String {
    switch self {
    case .destroy: "to end"
    case .drain: "to replace"
    case .advise: "in doubt"
    }
  }

  var headline: Text { Text(self.text, self.ink) }

  var ink: TextStyle {
    switch self {
    case .destroy: .bad
    case .drain: .middling
    case .advise: .faint
    }
  }
}

extension Invalidation.Scope {
  /// The text `connections on wlan0 (ipv4)`.
  var text: String { self.text("connections") { Text.tied($0, $1) } }
}

extension Duration {
  /// The duration in one unit: `12 s`, `3 min`, `47 h`, or from two days on `2 d`. A negative
  /// duration is `0 s`.
  var text: String {
    let seconds = max(0, self.components.seconds)
    return switch seconds {
    case ..<60: "\(seconds) s"
    case ..<3_600: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3_600) h"
    default: "\(seconds / 86_400) d"
    }
  }
}
