import Connectivity
import ConnectivityRules

/// The machine's key for hashing networks (I4). Without the key, the stored hashes do not reveal
/// where the machine has been.
struct NetworkKey: Hashable, Sendable {
  /// The length of the key in bytes.
  static let length = 16

  /// The key. It is secret, and constant as long as the machine keeps its state.
  let bytes: [UInt8]

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// Creates a random key.
  init() {
    var generator = SystemRandomNumberGenerator()
    self.bytes = (0..<Self.length).map { _ in generator.next() }
  }

  /// Returns the hash of a Wi-Fi network, from its SSID and whether it is open. An open network
  /// with a known name therefore inherits no override.
  func hash(of network: WirelessNetwork) -> NetworkHash {
    self.hash("wifi", [network.security == .open ? 1 : 0] + network.ssid)
  }

  /// Returns the hashes of the Wi-Fi networks that a user may mean by a name.
  func hashes(ofName name: String) -> [NetworkHash] {
    [WirelessSecurity.personal, .open].map {
      self.hash(of: WirelessNetwork(ssid: Array(name.utf8), security: $0))
    }
  }

  /// Returns the hash of the network behind a gateway, from the gateway's MAC address.
  func hash(ofGateway hardwareAddress: [UInt8]) -> NetworkHash {
    self.hash("gateway", hardwareAddress)
  }

  /// Returns the hash of a mobile network, from its operator.
  func hash(of mobile: MobileOperator) -> NetworkHash {
    self.hash("mobile", Array(mobile.code.utf8))
  }

  private func hash(_ kind: String, _ bytes: [UInt8]) -> NetworkHash {
    NetworkHash(SipHash(key: self.bytes).hash(Array(kind.utf8) + [0] + bytes))
  }
}

/// A network that the machine is on.
struct CurrentNetwork: Hashable, Sendable {
  var hash: NetworkHash
  /// The SSID, the operator's name, or the gateway's address.
  var name: String
  var medium: NetworkMedium
  /// The names of the links that reach the network, the out-link first.
  var links: [String]
}
