/// A Wi-Fi link as nl80211 describes it.
package struct WirelessLink: Hashable, Sendable {
  package var role: WirelessRole
  /// The network that the link has joined; `nil` where there is none, or it is one of its own.
  package var network: WirelessNetwork?
  /// The one by which it is in that network; `nil` where that is not known.
  package var accessPoint: AccessPoint?

  package init(
    role: WirelessRole, network: WirelessNetwork? = nil, accessPoint: AccessPoint? = nil
  ) {
    self.role = role
    self.network = network
    self.accessPoint = accessPoint
  }
}

/// What came of asking nl80211 about a link.
package enum WirelessAnswer: Hashable, Sendable {
  /// All that nl80211 knows of it.
  case link(WirelessLink)
  /// The link is none of Wi-Fi.
  case notWireless
  /// Not all could be asked, or nothing, which is so for the moment. What is missing in this is not known.
  case incomplete(WirelessLink?)
}

/// What a Wi-Fi link is in its network (`enum nl80211_iftype`).
package enum WirelessRole: String, Hashable, Sendable, CaseIterable {
  /// A member of an access point's network.
  case station
  case accessPoint
  case adHoc
  case mesh
  /// A member of a group of Wi-Fi Direct.
  case p2pClient
  case p2pGroupOwner
  /// It hears, and carries nothing.
  case monitor
  case other
}

/// A Wi-Fi network, as a member knows it.
package struct WirelessNetwork: Hashable, Sendable {
  /// Up to 32 octets, of any kind.
  package var ssid: [UInt8]
  /// What keeps strangers out; `nil` where the kernel did not say.
  package var security: WirelessSecurity?

  package init(ssid: [UInt8], security: WirelessSecurity? = nil) {
    self.ssid = ssid
    self.security = security
  }

  /// The SSID as iw(8) and wpa_cli(8) write it: octets that are no UTF-8 as `\xe9`, and a backslash twice. Control characters are
  /// left for who shows it.
  package var name: String {
    var name = ""
    var rest = self.ssid[...]
    while let first = rest.first {
      let length = (1...4).first { String(validating: rest.prefix($0), as: UTF8.self) != nil } ?? 0
      if length == 0 {
        name += "\\x" + (first < 0x10 ? "0" : "") + String(first, radix: 16)
      } else if first == UInt8(ascii: "\\") {
        name += "\\\\"
      } else {
        name += String(decoding: rest.prefix(length), as: UTF8.self)
      }
      rest = rest.dropFirst(max(length, 1))
    }
    return name
  }

  /// Whether an access point of the one cannot be one of the other: networks differ by their names, and those of one name by
  /// what keeps strangers out, where they have none of that in common. (Access points of one network may differ in what they
  /// offer beside it.)
  package func isOther(than network: WirelessNetwork) -> Bool {
    if self.ssid != network.ssid { return true }
    guard let security = self.security, let other = network.security else { return false }
    return security.isDisjoint(with: other)
  }

  /// This network, with what was known of the same one before and is not known now.
  package func completed(by earlier: WirelessNetwork?) -> WirelessNetwork {
    guard self.security == nil, let earlier, earlier.ssid == self.ssid else { return self }
    return earlier
  }
}

/// By what an access point lets somebody in; it may offer several ways.
package struct WirelessSecurity: OptionSet, Hashable, Sendable {
  package var rawValue: UInt8

  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Whoever comes, encrypted (OWE) or not.
  package static let open = WirelessSecurity(rawValue: 1 << 0)
  package static let wep = WirelessSecurity(rawValue: 1 << 1)
  /// A passphrase that all share: WPA, WPA2, WPA3 (SAE).
  package static let personal = WirelessSecurity(rawValue: 1 << 2)
  /// Each has credentials of his own: 802.1X.
  package static let enterprise = WirelessSecurity(rawValue: 1 << 3)
  /// A way that is not known here.
  package static let other = WirelessSecurity(rawValue: 1 << 4)
}

/// What nl80211 tells of a Wi-Fi link of its own accord.
package struct WirelessChange: Hashable, Sendable {
  /// What happened.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case joined = "NL80211_CMD_CONNECT"
    /// It has changed to another access point of its network.
    case roamed = "NL80211_CMD_ROAM"
    case left = "NL80211_CMD_DISCONNECT"
    /// The link was made, or has another role.
    case made = "NL80211_CMD_NEW_INTERFACE"
    case removed = "NL80211_CMD_DEL_INTERFACE"
  }

  package var kind: Kind
  /// The link's index.
  package var link: UInt32

  package init(_ kind: Kind, on link: UInt32) {
    self.kind = kind
    self.link = link
  }
}
