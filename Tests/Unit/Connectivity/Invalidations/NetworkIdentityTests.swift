import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Identities of networks")
struct NetworkIdentityTests {
  private static func gateway(
    _ mac: UInt8?, _ gateway: IPAddress? = "10.0.0.1", epoch: UInt64 = 0, first: UInt64 = 0,
    name: [UInt8]? = nil
  ) -> NetworkIdentity {
    NetworkIdentity(
      gateway: gateway, gatewayHardwareAddress: mac.map { [2, 0, 0, 0, 0, $0] },
      wireless: name.map { WirelessNetwork(ssid: $0) },
      epoch: epoch, oldestValidEpoch: first)
  }

  private enum Verdict { case same, other, failover }

  private static func verdict(_ now: NetworkIdentity, after before: NetworkIdentity) -> Verdict {
    #expect(!now.isOther(than: before) || !now.isFailover(after: before))
    return now.isOther(than: before) ? .other : now.isFailover(after: before) ? .failover : .same
  }

  @Test("I4 MAC addresses are compared for one gateway only, and only after a link loss")
  func stages() {
    let before = Self.gateway(1, epoch: 4)
    for (now, expected) in [
      (Self.gateway(1, epoch: 4), .same), (Self.gateway(2, epoch: 4), .failover),
      (Self.gateway(1, epoch: 5), .same), (Self.gateway(1, epoch: 5, first: 5), .same),
      (Self.gateway(2, epoch: 5, first: 5), .other), (Self.gateway(2, epoch: 6, first: 5), .other),
      // The network began when this router was already there.
      (Self.gateway(2, epoch: 5, first: 4), .same), (Self.gateway(2, epoch: 5), .same),
      // Another router of the subnet.
      (Self.gateway(2, "10.0.0.2", epoch: 5, first: 5), .same),
      (Self.gateway(2, "10.0.0.2", epoch: 4), .same),
      // No router any more: the destination is on-link.
      (Self.gateway(nil, nil, epoch: 5, first: 5), .same),
    ] as [(NetworkIdentity, Verdict)] {
      #expect(Self.verdict(now, after: before) == expected, "\(now)")
    }
    #expect(
      Self.verdict(Self.gateway(2, epoch: 5, first: 5), after: Self.gateway(nil, nil, epoch: 4))
        == .same)
  }

  @Test(
    "I4 unknown values distinguish nothing, except by the epoch at which the present network began")
  func unknown() {
    for (now, before, expected) in [
      (Self.gateway(nil, epoch: 5), Self.gateway(1, epoch: 4), .same),
      (Self.gateway(2, epoch: 4), Self.gateway(nil, epoch: 4), .same),
      (Self.gateway(2, epoch: 5), Self.gateway(nil, epoch: 4), .same),
      (Self.gateway(2, epoch: 5, first: 5), Self.gateway(nil, epoch: 4), .other),
      (Self.gateway(2, epoch: 5, first: 5), Self.gateway(nil, epoch: 5), .same),
    ] as [(NetworkIdentity, NetworkIdentity, Verdict)] {
      #expect(Self.verdict(now, after: before) == expected, "\(now) \(before)")
    }
  }

  @Test("I4 SSIDs are compared at any time, if both are known")
  func names() {
    for (now, before, expected) in [
      (Self.gateway(1, name: [66]), Self.gateway(1, name: [65]), .other),
      (Self.gateway(1, name: [65]), Self.gateway(1, name: [65]), .same),
      (Self.gateway(1, name: nil), Self.gateway(1, name: [65]), .same),
      (Self.gateway(1, name: [66]), Self.gateway(1, name: nil), .same),
    ] as [(NetworkIdentity, NetworkIdentity, Verdict)] {
      #expect(Self.verdict(now, after: before) == expected)
    }
  }

  @Test("I4 without neighbours' MAC addresses, gateway and subnet identify the network")
  func modem() {
    let before = NetworkIdentity(
      gateway: "10.0.0.1", hasHardwareAddresses: false, prefix: IPPrefix("10.0.0.0", length: 24),
      epoch: 1)
    #expect(Self.verdict(before, after: before) == .same)
    for change in [
      { $0.gateway = "10.0.0.2" }, { $0.prefix = IPPrefix("10.0.1.0", length: 24) },
    ] as [(inout NetworkIdentity) -> Void] {
      var after = before
      change(&after)
      // The link was never lost: it has another gateway, or a second prefix.
      #expect(Self.verdict(after, after: before) == .same)
      after.epoch = 2
      #expect(Self.verdict(after, after: before) == .other)
    }
    var back = before
    back.epoch = 2
    #expect(Self.verdict(back, after: before) == .same)
  }

  @Test("I4 a forgotten router is kept, with its epoch, until it is known again")
  func completed() {
    let before = Self.gateway(1, epoch: 4, name: [65])
    let forgotten = Self.gateway(nil, epoch: 5).completed(by: before)
    #expect(forgotten == before)
    #expect(Self.verdict(Self.gateway(2, epoch: 6, first: 5), after: forgotten) == .other)
    #expect(Self.gateway(1, epoch: 5).completed(by: before).epoch == 5)
    #expect(Self.gateway(nil, "10.0.0.2", epoch: 5).completed(by: before).epoch == 5)
    #expect(
      Self.gateway(nil, "10.0.0.2", epoch: 5).completed(by: before).gatewayHardwareAddress == nil)
  }
}
