import CLinux

extension AttributeRule {
  /// The attributes of nl80211.
  static let ofWireless: [Int: AttributeRule] = [
    Int(NL80211_ATTR_IFINDEX.rawValue): .same(4), Int(NL80211_ATTR_IFTYPE.rawValue): .same(4),
    Int(NL80211_ATTR_SSID.rawValue): .wirelessName,
    Int(NL80211_ATTR_CQM.rawValue): .nested([
      Int(NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT.rawValue): .same(4),
      Int(NL80211_ATTR_CQM_PKT_LOSS_EVENT.rawValue): .same(4),
      Int(NL80211_ATTR_CQM_BEACON_LOSS_EVENT.rawValue): .same(0),
    ]),
    Int(NL80211_ATTR_BSS.rawValue): .nested([
      Int(NL80211_BSS_STATUS.rawValue): .same(4), Int(NL80211_BSS_BSSID.rawValue): .hardwareAddress,
      Int(NL80211_BSS_FREQUENCY.rawValue): .same(4), Int(NL80211_BSS_CAPABILITY.rawValue): .same(2),
      Int(NL80211_BSS_INFORMATION_ELEMENTS.rawValue): .elements,
      Int(NL80211_BSS_BEACON_IES.rawValue): .elements,
    ]),
    Int(NL80211_ATTR_STA_INFO.rawValue): .nested([
      Int(NL80211_STA_INFO_SIGNAL.rawValue): .same(1),
      Int(NL80211_STA_INFO_TX_BITRATE.rawValue): .nested(Self.rate),
      Int(NL80211_STA_INFO_RX_BITRATE.rawValue): .nested(Self.rate),
      Int(NL80211_STA_INFO_TX_RETRIES.rawValue): .same(4),
    ]),
  ]

  private static let rate: [Int: AttributeRule] = [
    Int(NL80211_RATE_INFO_BITRATE32.rawValue): .same(4),
    Int(NL80211_RATE_INFO_BITRATE.rawValue): .same(2),
  ]

  /// The attributes of the generic netlink controller: families and their groups, with names and
  /// numbers from the kernel.
  static let ofFamilies: [Int: AttributeRule] = [
    Int(CTRL_ATTR_FAMILY_ID): .same(2), Int(CTRL_ATTR_FAMILY_NAME): .word,
    Int(CTRL_ATTR_MCAST_GROUPS): .list([
      Int(CTRL_ATTR_MCAST_GRP_NAME): .word, Int(CTRL_ATTR_MCAST_GRP_ID): .same(4),
    ]),
  ]
}

extension Anonymizer {
  /// Replaces the information elements of a Wi-Fi frame (IEEE 802.11-2020, 9.4.2). Keeps only the
  /// network's name, its security, and whether it is metered.
  func elements(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var (written, rest): ([UInt8], ArraySlice<UInt8>) = ([], bytes)
    while rest.count >= 2 {
      let (id, length) = (rest[rest.startIndex], Int(rest[rest.startIndex + 1]))
      let element = Array(rest.dropFirst(2).prefix(length))
      guard element.count == length else { break }
      rest = rest.dropFirst(2 + length)
      guard let substitute = self.element(id, element) else { continue }
      written += [id, UInt8(clamping: substitute.count)] + substitute
    }
    return written
  }

  private func element(_ id: UInt8, _ bytes: [UInt8]) -> [UInt8]? {
    let (rsn, vendor): (UInt8, UInt8) = (48, 221)
    // Microsoft's vendor elements: WPA, and the cost of the network.
    let wpa: [UInt8] = [0x00, 0x50, 0xF2, 0x01]
    let cost: [UInt8] = [0x00, 0x50, 0xF2, 0x11]
    switch id {
    case 0: return bytes.count <= 32 ? self.wirelessName(bytes) : nil
    case rsn: return Self.suites(bytes)
    case vendor where bytes.starts(with: wpa):
      return Self.suites(bytes.dropFirst(4)).map { wpa + $0 }
    case vendor where bytes.starts(with: cost): return Array(bytes.prefix(5))
    default: return nil
    }
  }

  /// Returns the version, ciphers and authentication suites. Anything after the suites may identify
  /// a station.
  private static func suites(_ bytes: some Collection<UInt8>) -> [UInt8]? {
    let bytes = Array(bytes)
    guard bytes.starts(with: [1, 0]) else { return nil }
    func count(at place: Int) -> Int? {
      place + 2 <= bytes.count ? Int(bytes[place]) | Int(bytes[place + 1]) << 8 : nil
    }
    guard let ciphers = count(at: 6), let keys = count(at: 8 + 4 * ciphers) else {
      return Array(bytes.prefix(6))
    }
    return Array(bytes.prefix(10 + 4 * ciphers + 4 * keys))
  }
}
