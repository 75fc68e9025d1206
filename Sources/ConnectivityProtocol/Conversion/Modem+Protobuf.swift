package import Connectivity

extension Connectivity_V1_Modem {
  /// - Parameter signalQuality: In percent, or `nil` if it was not measured.
  package init(_ link: ModemLink, signalQuality: UInt32? = nil) {
    self.connected = link.isConnected
    self.suspended = link.isSuspended
    if let generation = link.generation {
      self.technology = Connectivity_V1_MobileTechnology(generation)
    }
    self.roaming = link.isRoaming
    if let signalQuality { self.signalQuality = signalQuality }
  }
}
