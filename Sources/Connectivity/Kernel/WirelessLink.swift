/// A Wi-Fi link as reported by nl80211.
package struct WirelessLink: Hashable, Sendable {
  package var role: WirelessRole
  /// The network that the link has joined, or `nil` if it has joined none or provides its own.
  package var network: WirelessNetwork?
  /// The access point in that network, or `nil` if unknown.
  package var accessPoint: AccessPoint?

  package init(
    role: WirelessRole, network: WirelessNetwork? = nil, accessPoint: AccessPoint? = nil
  ) {
    self.role = role
    self.network = network
    self.accessPoint = accessPoint
  }
}

/// The result of querying nl80211 about a link.
package enum WirelessAnswer: Hashable, Sendable {
  /// All data of nl80211 about the link.
  case link(WirelessLink)
  /// The link is not a Wi-Fi link.
  case notWireless
  /// The query failed in part or completely, for the moment. Missing data is unknown.
  case incomplete(WirelessLink?)
}

/// The role of a Wi-Fi link in its network (`enum nl80211_iftype`).
package enum WirelessRole: String, Hashable, Sendable, CaseIterable {
  /// A client of an access point.
  case station
  case accessPoint
  case adHoc
  case mesh
  /// A client of a Wi-Fi Direct group.
  case p2pClient
  case p2pGroupOwner
  /// The link only receives, and passes no traffic.
  case monitor
  case other
}

/// A Wi-Fi network, as known to a client.
package struct WirelessNetwork: Hashable, Sendable {
  /// The SSID: up to 32 bytes, which need not be text.
  package var ssid: [UInt8]
  /// The authentication, or `nil` if the kernel did not report it.
  package var security: WirelessSecurity?

  package init(ssid: [UInt8], security: WirelessSecurity? = nil) {
    self.ssid = ssid
    self.security = security
  }

  /// The SSID in the notation of iw(8) and wpa_cli(8). Bytes that are not valid UTF-8 are written
  /// as `\xe9`, and a backslash is doubled. The caller must escape control characters.
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

  /// Returns whether the two networks certainly differ: they have different SSIDs, or no
  /// authentication method in common. (Access points of one network may offer different additional
  /// methods.)
  package func isOther(than network: WirelessNetwork) -> Bool {
    if self.ssid != network.ssid { return true }
    guard let security = self.security, let other = network.security else { return false }
    return security.isDisjoint(with: other)
  }

  /// Returns this network. If its authentication is unknown, takes the authentication from an
  /// earlier report on the same network.
  package func completed(by earlier: WirelessNetwork?) -> WirelessNetwork {
    guard self.security == nil, let earlier, earlier.ssid == self.ssid else { return self }
    return earlier
  }
}

/// The authentication of an access point; it may offer several methods.
package struct WirelessSecurity: OptionSet, Hashable, Sendable {
  package var rawValue: UInt8

  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// No authentication, with encryption (OWE) or without.
  package static let open = WirelessSecurity(rawValue: 1 << 0)
  package static let wep = WirelessSecurity(rawValue: 1 << 1)
  /// A shared passphrase: WPA, WPA2, WPA3 (SAE).
  package static let personal = WirelessSecurity(rawValue: 1 << 2)
  /// Credentials for each user: 802.1X.
  package static let enterprise = WirelessSecurity(rawValue: 1 << 3)
  /// An unknown method.
  package static let other = WirelessSecurity(rawValue: 1 << 4)

  /// One method, in the order of the bits.
  package enum Method: String, CaseIterable {
    case open, wep, personal, enterprise, other
  }

  package var methods: [Method] {
    zip(Method.allCases, 0...).filter { self.rawValue & 1 << $1 != 0 }.map(\.0)
  }
}

/// A notification of nl80211 about a Wi-Fi link.
package struct WirelessChange: Hashable, Sendable {
  /// The kind of change.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case joined = "NL80211_CMD_CONNECT"
    /// The link has moved to another access point of its network.
    case roamed = "NL80211_CMD_ROAM"
    case left = "NL80211_CMD_DISCONNECT"
    /// The link was created, or has another role.
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

/// An nl80211 notification about a Wi-Fi link's connection quality (`NL80211_CMD_NOTIFY_CQM`).
package struct SignalChange: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// The signal fell below a threshold, which wpa_supplicant or iwd has set.
    case low
    /// The signal rose above the threshold.
    case high
    /// The access point acknowledged none of 50 frames in a row, or its beacons are missing.
    case framesLost
  }

  package var kind: Kind
  /// The link's index.
  package var link: UInt32

  package init(_ kind: Kind, on link: UInt32) {
    self.kind = kind
    self.link = link
  }
}
