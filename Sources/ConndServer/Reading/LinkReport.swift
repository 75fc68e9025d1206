import Connectivity
import ConnectivityRules

/// The answer to a client about one link: the kernel's data, and connd's conclusions.
struct LinkReport: Sendable {
  /// The link's data from nl80211.
  struct Wireless: Sendable {
    var link: WirelessLink
    /// The signal, or `nil` if the link has joined no network or the signal is unknown.
    var signal: WirelessSignal?
    /// Whether clients may learn the SSID and the access point.
    var isNamed: Bool
  }

  /// The link below this one.
  struct Lower: Sendable {
    var name: String
    var isGuess = false
  }

  var facts: LinkFacts
  /// The evidence for the link's own medium.
  var evidence: KernelPath.Evidence
  /// Whether sending costs money, or `nil` if unknown.
  var isExpensive: Bool?
  var constraint: ConstraintLevel
  var addresses: [Address]
  /// How well the link passes the traffic of all users.
  var quality = LinkQuality.unknown
  /// The Wi-Fi data, or `nil` if the link is not a Wi-Fi link.
  var wireless: Wireless?
  /// The signal of a connected modem, in percent.
  var signalQuality: UInt32?
  /// The name of the link's bridge, bond, team or VRF. Set in a listing of all links only, as are
  /// the properties below.
  var master: String?
  var lower: Lower?
  /// The address families with a default path over the link.
  var defaultFamilies: Set<AddressFamily> = []
}

extension LinkReport {
  typealias Rank = (Int, Int, Int, UInt32)

  /// The sort key: links of the default paths come first, then working links, unmetered media
  /// before metered ones, and loopback last.
  var rank: Rank {
    (
      self.defaultFamilies.isEmpty ? 1 : 0,
      self.facts.link.stateAsPort == .up ? 0 : 1,
      self.evidence.medium.traits.place,
      self.facts.link.index
    )
  }
}
