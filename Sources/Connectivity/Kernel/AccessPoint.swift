/// The access point of a Wi-Fi link. It may change at any moment, so only the cost depends on it
/// (I8).
package struct AccessPoint: Hashable, Sendable {
  /// The access point's MAC address (BSSID), of six bytes.
  package var bssid: [UInt8]
  /// The centre frequency of the channel, in MHz.
  package var frequency: UInt32?
  /// Whether the access point announces a metered network (the network cost element, MS-NCT 2.2.1).
  package var isMetered: Bool

  package init(bssid: [UInt8], frequency: UInt32? = nil, isMetered: Bool = false) {
    self.bssid = bssid
    self.frequency = frequency
    self.isMetered = isMetered
  }
}

/// The current signal of a Wi-Fi link. Values that the driver does not measure are `nil`.
package struct WirelessSignal: Hashable, Sendable {
  /// The strength in dBm: -30 next to the access point, -90 at the limit of reception.
  package var strength: Int?
  /// The rate of the last frame sent, in bits per second.
  package var transmitRate: UInt64?
  /// The rate of the last frame received, in bits per second.
  package var receiveRate: UInt64?
  /// The number of frames retransmitted since the link joined.
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
