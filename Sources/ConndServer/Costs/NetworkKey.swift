import Connectivity
import ConnectivityRules

/// This machine's key, by which it calls networks (I4): what is remembered tells nobody else where the machine has been.
struct NetworkKey: Hashable, Sendable {
  /// In octets.
  static let length = 16

  /// Secret, and the same for as long as the machine has its state.
  let bytes: [UInt8]

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// A new one.
  init() {
    var generator = SystemRandomNumberGenerator()
    self.bytes = (0..<Self.length).map { _ in generator.next() }
  }

  /// A Wi-Fi network, by its name and whether it lets everybody in: who opens one of a known name gets nothing of that.
  func hash(of network: WirelessNetwork) -> NetworkHash {
    self.hash("wifi", [network.security == .open ? 1 : 0] + network.ssid)
  }

  /// What a Wi-Fi network of this name may be, as a user types it.
  func hashes(ofName name: String) -> [NetworkHash] {
    [WirelessSecurity.personal, .open].map {
      self.hash(of: WirelessNetwork(ssid: Array(name.utf8), security: $0))
    }
  }

  /// The network behind a router, by its hardware address.
  func hash(ofGateway hardwareAddress: [UInt8]) -> NetworkHash {
    self.hash("gateway", hardwareAddress)
  }

  /// A mobile network, by whose it is.
  func hash(of mobile: MobileOperator) -> NetworkHash {
    self.hash("mobile", Array(mobile.code.utf8))
  }

  private func hash(_ kind: String, _ bytes: [UInt8]) -> NetworkHash {
    NetworkHash(SipHash(key: self.bytes).hash(Array(kind.utf8) + [0] + bytes))
  }
}

/// A network that the machine is on.
struct PresentNetwork: Hashable, Sendable {
  var hash: NetworkHash
  /// The SSID, the operator's name, or the gateway's address.
  var name: String
  var medium: Medium
  /// The names of the links that it is reached by, the out-link first.
  var links: [String]
}
