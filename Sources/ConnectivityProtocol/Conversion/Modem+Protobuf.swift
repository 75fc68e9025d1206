package import Connectivity

extension Connectivity_V1_Modem {
  package init(_ link: ModemLink) {
    self.connected = link.isConnected
    self.suspended = link.isSuspended
    if let generation = link.generation { self.technology = generation.rawValue }
    self.roaming = link.isRoaming
  }
}
