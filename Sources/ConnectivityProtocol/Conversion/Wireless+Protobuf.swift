package import Connectivity

extension Connectivity_V1_Wireless {
  /// - Parameter isNamed: Whether to include the SSID and the access point.
  package init(_ link: WirelessLink, _ signal: WirelessSignal?, isNamed: Bool) {
    self.role = Connectivity_V1_WirelessRole(link.role)
    if let network = link.network {
      if isNamed { self.ssid = network.name }
      self.security = network.security?.methods.map(\.message) ?? []
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

extension Connectivity_V1_WirelessRole {
  package init(_ model: WirelessRole) {
    switch model {
    case .station: self = .station
    case .accessPoint: self = .accessPoint
    case .adHoc: self = .adHoc
    case .mesh: self = .mesh
    case .p2pClient: self = .p2PClient
    case .p2pGroupOwner: self = .p2PGroupOwner
    case .monitor: self = .monitor
    case .other: self = .other
    }
  }
}

extension WirelessRole {
  /// `other` for an unknown value.
  package init(_ message: Connectivity_V1_WirelessRole) {
    self = Self.allCases.first { Connectivity_V1_WirelessRole($0) == message } ?? .other
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
