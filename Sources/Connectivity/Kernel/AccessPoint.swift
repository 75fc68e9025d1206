/// The access point through which a Wi-Fi link is in its network. It may be another one in a minute: no rule looks at it.
package struct AccessPoint: Hashable, Sendable {
  /// Its hardware address (BSSID), of six octets.
  package var bssid: [UInt8]
  /// The middle of its channel, in MHz.
  package var frequency: UInt32?
  /// It says that its network is paid for by use (the network cost element, MS-NCT 2.2.1).
  package var isMetered: Bool

  package init(bssid: [UInt8], frequency: UInt32? = nil, isMetered: Bool = false) {
    self.bssid = bssid
    self.frequency = frequency
    self.isMetered = isMetered
  }
}

/// How well a Wi-Fi link hears its access point, and is heard, at this moment. What the driver does not measure is `nil`.
package struct WirelessSignal: Hashable, Sendable {
  /// In dBm: -30 beside it, -90 where nothing gets through.
  package var strength: Int?
  /// Of the last frame sent, in bits a second.
  package var transmitRate: UInt64?
  /// Of the last frame received, in bits a second.
  package var receiveRate: UInt64?
  /// How many frames were sent again, since the link has joined.
  package var retries: UInt32?

  package init(
    strength: Int? = nil, transmitRate: UInt64? = nil, receiveRate: UInt64? = nil,
    retries: UInt32? = nil
  ) {
    self.strength = strength
    self.transmitRate = transmitRate
    self.receiveRate = receiveRate
    self.retries = retries
  }
}
