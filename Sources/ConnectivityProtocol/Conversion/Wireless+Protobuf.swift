package import Connectivity

extension Connectivity_V1_Wireless {
  /// - Parameter isNamed: Whether to include the SSID and the access point.
  package init(_ link: WirelessLink, _ signal: WirelessSignal?, isNamed: Bool) {
    self.role = Connectivity_V1_WirelessRole(link.role)
    if let network = link.network {
      if isNamed { self.ssid = network.name }
      self.security = network.security?.methods.map(\.wireValue) ?? []
    }
    if let accessPoint = link.accessPoint {
      if isNamed { self.bssid = accessPoint.bssid.hardwareAddress }
      if let frequency = accessPoint.frequency { self.frequency = frequency }
      self.metered = accessPoint.isMetered
    }
    if let strength = signal?.strength { self.signal = Int32(clamping: strength) }
    if let rate = signal?.transmitRate { self.transmitRate = rate }
    if let rate = signal?.receiveRate { self.receiveRate = rate }
    if let retries = signal?.retries { self.retries = retries }
  }
}

extension [UInt8] {
  /// The usual notation of a MAC address: `02:00:00:00:01:00`.
  fileprivate var hardwareAddress: String {
    self.map { octet in
      let digits = String(octet, radix: 16)
      return digits.count == 1 ? "0" + digits : digits
    }.joined(separator: ":")
  }
}
