import Connectivity
import ConnectivityProtocol

extension Style {
  /// Returns the text of `connctl links`.
  ///
  /// - Parameters:
  ///   - asTree: Whether to show the lower links below each link.
  ///   - isComplete: Whether to show the virtual ports of bridges.
  func links(
    _ links: [Connectivity_V1_Link], asTree: Bool = false, isComplete: Bool = false
  ) -> [String] {
    let folding = isComplete || asTree ? nil : LinkFolding(links)
    let rows =
      asTree
      ? LinkTree(links).rows : (folding?.links ?? links).map { .init(link: $0, branch: "") }
    var table = Table(["LINK", "KIND", "MEDIUM", "STATE", "DEFAULT", "ADDRESSES"])
    for row in rows {
      let link = row.link
      let medium = NetworkMedium(link.medium)
      let defaults = [link.defaultIpv4 ? "ipv4" : nil, link.defaultIpv6 ? "ipv6" : nil]
      var notes = link.addresses
      if let text = folding?.portText(of: link) { notes.append(text) }
      if let text = link.alternativeNameText { notes.append(text) }
      notes += link.notes(link.wireless.text, withSignal: true)
      table.add(
        Text(row.branch + link.name), Text(link.kind),
        medium == .unknown ? Text("-", .faint) : Text(medium.rawValue),
        link.stateText,
        Text(defaults.compactMap { $0 }.joined(separator: " ")),
        Text(notes.joined(separator: " ")))
    }
    return table.withoutEmptyColumns.lines(self)
  }
}

extension Connectivity_V1_Wireless {
  /// The network and its signal: `"home" -52 dBm`, or `nil` if neither is known.
  fileprivate var text: String? {
    var parts: [String] = []
    if self.hasSsid { parts.append("\"\(self.ssid)\"") }
    if self.hasSignal { parts.append("\(self.signal) dBm") }
    return parts.isEmpty ? nil : parts.joined(separator: " ")
  }
}

extension Connectivity_V1_Modem {
  /// Returns the texts `4G`, `roaming`, `signal 67%`.
  func text(withSignal: Bool) -> [String] {
    [
      self.generation, self.roaming ? "roaming" : nil,
      self.suspended ? "suspended" : nil, self.connected ? nil : "not connected",
      withSignal && self.hasSignalQuality ? "signal \(self.signalQuality)%" : nil,
    ].compactMap { $0 }
  }

  /// The technology, such as `4G`, or `nil` if it is unknown.
  var generation: String? {
    self.hasTechnology ? MobileGeneration(known: self.technology)?.rawValue : nil
  }
}

extension Connectivity_V1_Link {
  var constraint: ConstraintLevel {
    ConstraintLevel(self.constraintLevel, isConstrained: self.constrained)
  }

  /// Whether this is the link's name or an alternative name.
  func isNamed(_ name: String) -> Bool { ([self.name] + self.alternativeNames).contains(name) }

  /// Returns the costs of a link, and the device or link behind it.
  ///
  /// - Parameter network: The text about the link's Wi-Fi network.
  func notes(_ network: String? = nil, withSignal: Bool) -> [String] {
    let hasTranslated = self.addresses.contains { text in
      text.split(separator: "/").first.flatMap { IPAddress(String($0)) }?.isOfTranslator == true
    }
    return [
      self.expensive ? "metered" : nil, self.constraint.word, network,
      hasTranslated && self.isTranslator ? "translated IPv4" : nil,
    ]
    .compactMap { $0 } + (self.hasModem ? self.modem.text(withSignal: withSignal) : [])
      + [self.viaText, self.lowerGuessed ? "maybe over \(self.lower)" : nil].compactMap { $0 }
  }

  /// Whether the link may translate IPv4 to IPv6. An `ip6tnl` link with such an address is
  /// DS-Lite's.
  var isTranslator: Bool { NetworkMedium(self.medium) != .tunnel || self.kind == "tun" }

  /// The text `alias enx020000000001`, or `nil` if the link has no other name.
  var alternativeNameText: String? {
    self.alternativeNames.isEmpty
      ? nil : "alias " + self.alternativeNames.joined(separator: " ")
  }

  /// The text `via phone`, or `nil` if no other device is behind the link.
  var viaText: String? {
    guard self.hasVia else { return nil }
    return (self.viaGuessed ? "maybe via " : "via ") + self.viaWord
  }

  /// The kind of the device behind the link. `device` for an unknown kind of a newer connd.
  var viaWord: String { Via.Kind(known: self.via)?.rawValue ?? "device" }

  var stateText: Text {
    let state = LinkState(self.state)
    return Text(state.text, state.ink)
  }
}

extension LinkState {
  var text: String { self.rawValue.separatedWords }

  fileprivate var ink: TextStyle {
    switch self {
    case .up: .good
    case .dormant: .middling
    case .down, .noCarrier: .faint
    }
  }
}
