import Connectivity

/// The information elements of a Wi-Fi frame (IEEE 802.11-2020, 9.4.2): one byte for the element's
/// id, and one for its length.
///
/// Any radio nearby can send them. Reading stops at the first invalid element.
struct InformationElements: IteratorProtocol {
  private var rest: Bytes

  init(_ bytes: Bytes) { self.rest = bytes }

  mutating func next() -> (id: UInt8, payload: Bytes)? {
    guard let id = self.rest.load(UInt8.self, at: 0),
      let length = self.rest.load(UInt8.self, at: 1).map(Int.init)
    else { return nil }
    let payload = self.rest.slice(from: 2, to: 2 + length)
    guard payload.count == length else { return nil }
    self.rest = self.rest.slice(from: 2 + length)
    return (id, payload)
  }

  /// The SSID, or `nil` if it is missing, too long, or hidden (empty, or all zeros).
  var ssid: [UInt8]? {
    var elements = self
    while let element = elements.next() {
      guard element.id == 0 else { continue }
      return element.payload.ssid
    }
    return nil
  }
}

extension Bytes {
  /// The bytes as an SSID, or `nil` if they are too long or hidden (IEEE 802.11-2020, 9.4.2.2).
  var ssid: [UInt8]? {
    let ssid = self.array
    return ssid.count <= 32 && ssid.contains { $0 != 0 } ? ssid : nil
  }
}

extension InformationElements {
  /// Whether an element marks the network as metered: vendor 00:50:F2, type 0x11. Its first byte is
  /// the cost level (MS-NCT 2.2.1.2).
  var isMetered: Bool {
    var elements = self
    while let (id, element) = elements.next() {
      guard id == 221, element.array.starts(with: [0x00, 0x50, 0xF2, 0x11]),
        let level = element.load(UInt8.self, at: 4)
      else { continue }
      return level == 2 || level == 4
    }
    return false
  }
}

extension WirelessSecurity {
  /// The authentication methods in an access point's information elements (IEEE 802.11-2020,
  /// 9.4.2.24). WPA uses the vendor element 00:50:F2 type 1, which has the same format.
  ///
  /// Invalid elements count as `other`.
  ///
  /// - Parameter isPrivate: The capability bit "privacy", which distinguishes WEP from an open
  ///   network.
  init(elements: Bytes, isPrivate: Bool) {
    var security: WirelessSecurity = []
    var elements = InformationElements(elements)
    while let (id, element) = elements.next() {
      switch id {
      case Self.rsn: security.formUnion(Self.suites(element))
      case Self.vendor where element.array.starts(with: Self.wpa):
        security.formUnion(Self.suites(element.slice(from: Self.wpa.count)))
      default: break
      }
    }
    self = security.isEmpty ? (isPrivate ? .wep : .open) : security
  }

  private static let rsn: UInt8 = 48
  private static let vendor: UInt8 = 221
  private static let wpa: [UInt8] = [0x00, 0x50, 0xF2, 1]

  /// Returns the methods in the list of key management suites. If the element ends before the list,
  /// the default is 802.1X.
  private static func suites(_ element: Bytes) -> WirelessSecurity {
    // The version and the group cipher, then the pairwise ciphers.
    guard let ciphers = element.load(UInt16.self, at: 6).map({ Int(UInt16(littleEndian: $0)) }),
      let count = element.load(UInt16.self, at: 8 + 4 * ciphers)
        .map({ Int(UInt16(littleEndian: $0)) })
    else { return .enterprise }
    let list = element.slice(from: 10 + 4 * ciphers, to: 10 + 4 * ciphers + 4 * count)
    guard count > 0, list.count == 4 * count else { return .other }
    return stride(from: 0, to: list.count, by: 4).reduce(into: []) { security, place in
      security.formUnion(Self.suite(list.slice(from: place, to: place + 4).array))
    }
  }

  private static func suite(_ suite: [UInt8]) -> WirelessSecurity {
    switch (Array(suite.prefix(3)), suite.last) {
    case ([0x00, 0x0F, 0xAC], let number?): Self.suites[number] ?? .other
    case ([0x00, 0x50, 0xF2], 1): .enterprise
    case ([0x00, 0x50, 0xF2], 2): .personal
    default: .other
    }
  }

  /// The suites 00:0F:AC by number (IEEE 802.11-2020, table 9-151; 24 and 25 are from 802.11be). 18
  /// is OWE.
  private static let suites: [UInt8: WirelessSecurity] = [
    1: .enterprise, 2: .personal, 3: .enterprise, 4: .personal, 5: .enterprise, 6: .personal,
    8: .personal, 9: .personal, 11: .enterprise, 12: .enterprise, 13: .enterprise,
    14: .enterprise, 15: .enterprise, 16: .enterprise, 17: .enterprise, 18: .open, 19: .personal,
    20: .personal, 22: .enterprise, 23: .enterprise, 24: .personal, 25: .personal,
  ]
}
