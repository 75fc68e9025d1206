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
    var columns = Columns()
    let titles = ["LINK", "KIND", "MEDIUM", "STATE", "DEFAULT", "ADDRESSES"]
    columns.rows.append(titles.map { Text($0, .faint) })
    for row in rows {
      let link = row.link
      let medium = Medium(link.medium)
      let defaults = [link.defaultIpv4 ? "ipv4" : nil, link.defaultIpv6 ? "ipv6" : nil]
      var notes = link.addresses
      if let words = folding?.portWords(of: link) { notes.append(words) }
      if let words = link.alternativeNameWords { notes.append(words) }
      if link.expensive { notes.append("metered") }
      if link.constrained { notes.append("constrained") }
      if link.hasWireless, let words = link.wireless.words { notes.append(words) }
      if link.hasModem { notes += link.modem.words + [link.modem.signalWords].compactMap { $0 } }
      if let words = link.viaWords { notes.append(words) }
      if link.lowerGuessed { notes.append("maybe over \(link.lower)") }
      columns.rows.append([
        Text(row.branch + link.name), Text(link.kind),
        medium == .unknown ? Text("-", .faint) : Text(medium.rawValue),
        Text((link.state.word ?? "unknown").separatingWords, link.state.ink),
        Text(defaults.compactMap { $0 }.joined(separator: " ")),
        Text(notes.joined(separator: " ")),
      ])
    }
    return columns.withoutEmptyColumns.lines(self)
  }
}

extension Connectivity_V1_Wireless {
  /// The network and its signal: `"home" -52 dBm`, or `nil` if neither is known.
  fileprivate var words: String? {
    var words: [String] = []
    if self.hasSsid { words.append("\"\(self.ssid)\"") }
    if self.hasSignal { words.append("\(self.signal) dBm") }
    return words.isEmpty ? nil : words.joined(separator: " ")
  }
}

extension Connectivity_V1_Modem {
  /// The texts `4G`, `roaming`.
  var words: [String] {
    [
      self.word, self.roaming ? "roaming" : nil,
      self.suspended ? "suspended" : nil, self.connected ? nil : "not connected",
    ].compactMap { $0 }
  }

  /// The text `signal 67%`.
  var signalWords: String? {
    self.hasSignalQuality ? "signal \(self.signalQuality)%" : nil
  }
}

extension Connectivity_V1_Link {
  /// The text `alias enx020000000001`, or `nil` if the link has no other name.
  var alternativeNameWords: String? {
    self.alternativeNames.isEmpty
      ? nil : "alias " + self.alternativeNames.joined(separator: " ")
  }

  /// The text `via phone`, or `nil` if the link is what it looks like.
  var viaWords: String? {
    guard self.hasVia else { return nil }
    return (self.viaGuessed ? "maybe via " : "via ") + self.via.word
  }
}

extension Connectivity_V1_LinkState {
  var ink: TextStyle {
    switch self {
    case .up: .good
    case .dormant, .unspecified, .UNRECOGNIZED: .middling
    case .down, .noCarrier: .faint
    }
  }
}
