import CLinux
import Connectivity

/// The access point that a link has joined, from the last scan (NL80211_CMD_GET_SCAN).
struct JoinedAccessPoint: Hashable {
  /// The SSID, or `nil` if the access point hides it.
  var ssid: [UInt8]?
  var security: WirelessSecurity
  /// The access point, or `nil` if the kernel reports no MAC address.
  var accessPoint: AccessPoint?

  /// Reads a scan result. Returns `nil` unless the link has joined that access point.
  init?(message: Message) {
    var all = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    guard var attributes = all.nested(in: Int(NL80211_ATTR_BSS.rawValue)) else { return nil }
    var isJoined = false
    var capability: UInt16 = 0
    var (bssid, frequency): ([UInt8]?, UInt32?)
    var (answered, beacon): (Bytes?, Bytes?)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NL80211_BSS_STATUS.rawValue):
        isJoined = attribute.payload.uint32 == NL80211_BSS_STATUS_ASSOCIATED.rawValue
      case Int(NL80211_BSS_BSSID.rawValue): bssid = attribute.payload.array
      case Int(NL80211_BSS_FREQUENCY.rawValue): frequency = attribute.payload.uint32
      case Int(NL80211_BSS_CAPABILITY.rawValue):
        capability = attribute.payload.load(UInt16.self, at: 0) ?? 0
      case Int(NL80211_BSS_INFORMATION_ELEMENTS.rawValue): answered = attribute.payload
      case Int(NL80211_BSS_BEACON_IES.rawValue): beacon = attribute.payload
      default: break
      }
    }
    guard isJoined, let elements = answered ?? beacon else { return nil }
    self.ssid = InformationElements(elements).ssid
    self.security = WirelessSecurity(elements: elements, isPrivate: capability & Self.privacy != 0)
    if let bssid, bssid.count == 6 {
      self.accessPoint = AccessPoint(
        bssid: bssid, frequency: frequency, isMetered: InformationElements(elements).isMetered)
    }
  }

  /// WLAN_CAPABILITY_PRIVACY.
  private static let privacy: UInt16 = 1 << 4
}

extension WirelessSignal {
  /// Reads the signal in NL80211_CMD_GET_STATION. Returns `nil` if it is missing.
  init?(message: Message) {
    var all = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    guard var attributes = all.nested(in: Int(NL80211_ATTR_STA_INFO.rawValue)) else { return nil }
    self.init()
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NL80211_STA_INFO_SIGNAL.rawValue):
        self.strength = attribute.payload.uint8.map { Int(Int8(bitPattern: $0)) }
      case Int(NL80211_STA_INFO_TX_BITRATE.rawValue):
        self.transmitRate = Self.rate(attribute.payload)
      case Int(NL80211_STA_INFO_RX_BITRATE.rawValue):
        self.receiveRate = Self.rate(attribute.payload)
      case Int(NL80211_STA_INFO_TX_RETRIES.rawValue): self.retries = attribute.payload.uint32
      default: break
      }
    }
  }

  /// Returns the rate in bits per second. The kernel counts in units of 100 kbit/s, and reports
  /// rates above 6.5 Gbit/s only in the wider attribute.
  private static func rate(_ info: Bytes) -> UInt64? {
    var (wide, narrow): (UInt32?, UInt16?)
    var attributes = AttributeReader(info)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NL80211_RATE_INFO_BITRATE32.rawValue): wide = attribute.payload.uint32
      case Int(NL80211_RATE_INFO_BITRATE.rawValue):
        narrow = attribute.payload.load(UInt16.self, at: 0)
      default: break
      }
    }
    return (wide ?? narrow.map(UInt32.init)).map { UInt64($0) * 100_000 }
  }
}
