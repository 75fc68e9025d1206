package import Connectivity

/// The network behind a link, as far as known (I4). Unknown properties distinguish nothing.
package struct NetworkIdentity: Hashable, Sendable {
  /// The gateway, or `nil` for destinations on the link, which do not depend on a gateway.
  package var gateway: IPAddress?
  /// The gateway's MAC address, or `nil` while the kernel does not know it.
  package var gatewayHardwareAddress: [UInt8]?
  /// Whether neighbours on the link have MAC addresses. If not (a modem, a tunnel), gateway and
  /// prefix identify the network.
  package var hasHardwareAddresses: Bool
  /// The subnet of the source address.
  package var prefix: IPPrefix?
  /// The prefixes on which translated IPv4 depends, or `nil` if nothing is translated (K9).
  package var translation: TranslationPrefixes?
  /// The Wi-Fi network that the link has joined.
  package var wireless: WirelessNetwork?
  /// Increases whenever the link, or the source address of new connections, was lost. From then on,
  /// another network may be behind the link.
  package var epoch: UInt64
  /// The first epoch of the present network. Earlier flows were made on another network.
  package var oldestValidEpoch: UInt64

  package init(
    gateway: IPAddress? = nil, gatewayHardwareAddress: [UInt8]? = nil,
    hasHardwareAddresses: Bool = true, prefix: IPPrefix? = nil,
    wireless: WirelessNetwork? = nil, epoch: UInt64 = 0, oldestValidEpoch: UInt64 = 0
  ) {
    self.gateway = gateway
    self.gatewayHardwareAddress = gatewayHardwareAddress
    self.hasHardwareAddresses = hasHardwareAddresses
    self.prefix = prefix
    self.wireless = wireless
    self.epoch = epoch
    self.oldestValidEpoch = oldestValidEpoch
  }

  /// Whether enough is known to be certain that the networks differ.
  ///
  /// A second prefix or another router of the same subnet does not indicate another network.
  /// Neither does a router that was replaced while the link stayed up (VRRP without a virtual MAC
  /// address).
  func isOther(than earlier: NetworkIdentity) -> Bool {
    if let wireless, let earlier = earlier.wireless, wireless.isOther(than: earlier) { return true }
    guard self.hasHardwareAddresses || earlier.hasHardwareAddresses else {
      return self.epoch != earlier.epoch
        && (self.gateway != earlier.gateway || self.prefix != earlier.prefix)
    }
    guard self.isOfSameGateway(as: earlier), earlier.epoch < self.oldestValidEpoch else {
      return false
    }
    return !self.hasSameHardwareAddress(as: earlier)
  }

  /// Whether another router has taken the gateway's address while the link stayed up.
  func isFailover(after earlier: NetworkIdentity) -> Bool {
    guard self.isOfSameGateway(as: earlier), self.gatewayHardwareAddress != nil,
      earlier.gatewayHardwareAddress != nil, self.epoch == earlier.epoch
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

  /// Returns this identity, completed with an earlier identity of the same network. A link that
  /// lost its carrier forgets its neighbours. Flows from before the loss keep their epoch until the
  /// gateway is known again.
  func completed(by earlier: NetworkIdentity) -> NetworkIdentity {
    var identity = self
    identity.wireless = self.wireless?.completed(by: earlier.wireless) ?? earlier.wireless
    if self.hasHardwareAddresses, self.gatewayHardwareAddress == nil,
      self.isOfSameGateway(as: earlier)
    {
      identity.gatewayHardwareAddress = earlier.gatewayHardwareAddress
      identity.epoch = earlier.epoch
    }
    // A translated flow depends only on the prefixes that it was made with.
    if let translation = earlier.translation, !translation.ofLink.isEmpty {
      identity.translation = translation
    }
    return identity
  }
}
