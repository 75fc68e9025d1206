package import Connectivity

/// What is known of the network behind a link (I4). What is not known distinguishes nothing.
package struct NetworkIdentity: Hashable, Sendable {
  /// `nil` for destinations on the link: they do not depend on the gateway.
  package var gateway: IPAddress?
  /// The gateway's hardware address; `nil` as long as the kernel does not know it.
  package var gatewayHardwareAddress: [UInt8]?
  /// Whether neighbours have hardware addresses on the link. Where they have none (a modem, a tunnel), gateway and prefix
  /// tell the network.
  package var hasHardwareAddresses: Bool
  /// The subnet of the source address.
  package var prefix: IPPrefix?
  /// The Wi-Fi network that the link has joined.
  package var wireless: WirelessNetwork?
  /// Grows each time that the link, or the address that new connections have on it, went: another network may be behind it from then on.
  package var stage: UInt64
  /// What was made at an earlier stage was made on another network.
  package var firstStage: UInt64

  package init(
    gateway: IPAddress? = nil, gatewayHardwareAddress: [UInt8]? = nil,
    hasHardwareAddresses: Bool = true, prefix: IPPrefix? = nil,
    wireless: WirelessNetwork? = nil, stage: UInt64 = 0, firstStage: UInt64 = 0
  ) {
    self.gateway = gateway
    self.gatewayHardwareAddress = gatewayHardwareAddress
    self.hasHardwareAddresses = hasHardwareAddresses
    self.prefix = prefix
    self.wireless = wireless
    self.stage = stage
    self.firstStage = firstStage
  }

  /// Whether both are known well enough to say that they are not the same network.
  ///
  /// A second prefix or another router of the same subnet is the same network; so is one whose router was replaced while
  /// the link never went (VRRP without a virtual hardware address).
  func isOther(than earlier: NetworkIdentity) -> Bool {
    if let wireless, let earlier = earlier.wireless, wireless.isOther(than: earlier) { return true }
    guard self.hasHardwareAddresses || earlier.hasHardwareAddresses else {
      return self.stage != earlier.stage
        && (self.gateway != earlier.gateway || self.prefix != earlier.prefix)
    }
    guard self.isOfSameGateway(as: earlier), earlier.stage < self.firstStage else { return false }
    return !self.hasSameHardwareAddress(as: earlier)
  }

  /// Whether another router has taken the gateway's address, on a link that never went.
  func isFailover(after earlier: NetworkIdentity) -> Bool {
    guard self.isOfSameGateway(as: earlier), self.gatewayHardwareAddress != nil,
      earlier.gatewayHardwareAddress != nil, self.stage == earlier.stage
    else { return false }
    return !self.hasSameHardwareAddress(as: earlier)
  }

  private func isOfSameGateway(as other: NetworkIdentity) -> Bool {
    self.gateway != nil && self.gateway == other.gateway
  }

  private func hasSameHardwareAddress(as other: NetworkIdentity) -> Bool {
    self.gatewayHardwareAddress != nil
      && self.gatewayHardwareAddress == other.gatewayHardwareAddress
  }

  /// This identity, and of an earlier one of the same network what is not known now: a link that lost its carrier
  /// forgets its neighbours. Whoever was on it before it went stays there until the gateway is known again.
  func completed(by earlier: NetworkIdentity) -> NetworkIdentity {
    var identity = self
    identity.wireless = self.wireless?.completed(by: earlier.wireless) ?? earlier.wireless
    if self.hasHardwareAddresses, self.gatewayHardwareAddress == nil,
      self.isOfSameGateway(as: earlier)
    {
      identity.gatewayHardwareAddress = earlier.gatewayHardwareAddress
      identity.stage = earlier.stage
    }
    return identity
  }
}
