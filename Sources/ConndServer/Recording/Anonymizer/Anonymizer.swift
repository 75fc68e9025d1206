import Connectivity
import ConnectivityRules

/// Anonymizes addresses and names in a recording, consistently and irreversibly. Each value always
/// gets the same substitute, computed with a key that is not stored. The substitutes reveal only
/// what is documented at each function.
///
/// Not thread-safe.
final class Anonymizer {
  /// The kind of value, so that equal bytes of different kinds have different hashes.
  enum Sort: UInt8 {
    case ipv4 = 1
    case ipv6, hardwareAddress, wirelessName, linkName, label, network, mobileOperator
  }

  private let function: SipHash
  /// The machine's key for networks, and its substitute.
  private(set) var networkKeys = (old: NetworkKey(), new: NetworkKey())

  // The substitutes so far.
  private(set) var addresses: [IPAddress: IPAddress] = [:]
  private(set) var linkNames: [String: String] = [:]
  private(set) var wirelessNames: [[UInt8]: [UInt8]] = [:]
  private(set) var hardwareAddresses: [[UInt8]: [UInt8]] = [:]
  private(set) var operators: [MobileOperator: MobileOperator] = [:]

  /// - Parameter key: Sixteen bytes. Random except in tests.
  init(key: [UInt8] = NetworkKey().bytes) {
    self.function = SipHash(key: key)
    // connd's own probes reveal nothing about the machine.
    let probes = DefaultDestination.spread
    for address in probes.ipv4 + probes.ipv6 { self.addresses[address] = address }
  }

  func hash(_ sort: Sort, _ bytes: some Sequence<UInt8>) -> UInt64 {
    self.function.hash([sort.rawValue] + bytes)
  }

  /// Returns up to sixteen hexadecimal digits of a hash.
  func digits(_ count: Int, _ sort: Sort, _ text: some StringProtocol) -> String {
    String(NetworkHash(self.hash(sort, text.utf8)).description.suffix(count))
  }

  // MARK: - Addresses

  func address(_ address: IPAddress) -> IPAddress {
    if let known = self.addresses[address] { return known }
    let substitute = self.computed(address)
    self.addresses[address] = substitute
    return substitute
  }

  /// Returns the substitute of an address. For the first address of a block, that is the first
  /// address of the substitute block.
  func address(_ address: IPAddress, length: Int) -> IPAddress {
    guard let prefix = IPPrefix(address, length: length), prefix.address == address else {
      return self.address(address)
    }
    return IPPrefix(self.address(address), length: length)?.address ?? self.address(address)
  }

  /// Returns the substitute of a hardware address, usually of six bytes. A tunnel's hardware
  /// address is an IP address. The group and local-administration bits stay, and so do addresses of
  /// only zeros or ones.
  func hardwareAddress(_ bytes: [UInt8]) -> [UInt8] {
    if bytes.allSatisfy({ $0 == 0 }) || bytes.allSatisfy({ $0 == 0xFF }) { return bytes }
    if let address = IPAddress(bytes: bytes) { return self.address(address).bytes }
    if let known = self.hardwareAddresses[bytes] { return known }
    var substitute: [UInt8] = []
    while substitute.count < bytes.count {
      let hash = self.hash(.hardwareAddress, [UInt8(truncatingIfNeeded: substitute.count)] + bytes)
      withUnsafeBytes(of: hash.littleEndian) { substitute += $0 }
    }
    substitute = Array(substitute.prefix(bytes.count))
    if bytes.count == 6 { substitute[0] = substitute[0] & ~3 | bytes[0] & 3 }
    self.hardwareAddresses[bytes] = substitute
    return substitute
  }

  // MARK: - Names

  /// Returns the substitute of an SSID. The empty SSID of a hidden network stays.
  func wirelessName(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.contains(where: { $0 != 0 }) else { return bytes }
    if let known = self.wirelessNames[bytes] { return known }
    let digits = NetworkHash(self.hash(.wirelessName, bytes)).description.suffix(8)
    let substitute = Array("ssid-\(digits)".utf8)
    self.wirelessNames[bytes] = substitute
    return substitute
  }

  func linkName(_ name: String) -> String {
    if let known = self.linkNames[name] { return known }
    let substitute = self.computed(linkName: name)
    self.linkNames[name] = substitute
    return substitute
  }

  /// Returns the substitute of a domain, label by label, so that subdomains remain subdomains.
  /// Common names of local networks stay.
  func domain(_ name: String) -> String {
    var labels: [Substring] = []
    var substitutes: [String] = []
    for label in name.split(separator: ".", omittingEmptySubsequences: false).reversed() {
      labels.insert(label, at: 0)
      let isPublic = labels.count == 1 && Self.publicDomains.contains(label.lowercased())
      substitutes.insert(
        label.isEmpty || isPublic
          ? String(label)
          : "n" + self.digits(7, .label, labels.joined(separator: ".").lowercased()),
        at: 0)
    }
    return substitutes.joined(separator: ".")
  }

  /// Special-use names such as those of RFC 6761, and the defaults of home routers.
  private static let publicDomains: Set<String> = [
    "arpa", "example", "home", "internal", "invalid", "lan", "local", "localdomain", "localhost",
    "test",
  ]

  /// Returns an operator with a substitute code of the same length and a substitute name.
  func mobileOperator(_ known: MobileOperator) -> MobileOperator {
    let hash = self.hash(.mobileOperator, known.code.utf8)
    let digits = "00000" + String(hash % 1_000_000)
    let substitute = MobileOperator(
      code: String(digits.suffix(min(6, known.code.utf8.count))),
      name: known.name.isEmpty ? "" : "operator-" + self.digits(6, .mobileOperator, known.name))
    self.operators[known] = substitute
    return substitute
  }

  // MARK: - Networks

  /// Returns the substitute of a network's name as given by a user: its hash, SSID, operator, or
  /// gateway address.
  func networkName(_ name: String) -> String {
    if let hash = NetworkHash(name) { return self.network(hash).description }
    for (known, substitute) in self.operators {
      if name == known.name { return substitute.name }
      if name == known.code { return substitute.code }
    }
    if let address = IPAddress(name) { return self.address(address).description }
    return String(decoding: self.wirelessName(Array(name.utf8)), as: UTF8.self)
  }

  /// Sets the machine's key and its substitute.
  func replace(_ key: NetworkKey) {
    let bytes = ([0, 1] as [UInt8]).flatMap { half in
      withUnsafeBytes(of: self.hash(.network, [half] + key.bytes)) { Array($0) }
    }
    self.networkKeys = (key, NetworkKey(bytes: bytes))
  }

  /// Returns a known network's hash with the new key, or an unrelated hash for any other network.
  func network(_ hash: NetworkHash) -> NetworkHash {
    let (old, new) = self.networkKeys
    for (name, substitute) in self.wirelessNames {
      for security in [WirelessSecurity.open, .personal]
      where old.hash(of: WirelessNetwork(ssid: name, security: security)) == hash {
        return new.hash(of: WirelessNetwork(ssid: substitute, security: security))
      }
    }
    for (known, substitute) in self.operators where old.hash(of: known) == hash {
      return new.hash(of: substitute)
    }
    for (address, substitute) in self.hardwareAddresses where old.hash(ofGateway: address) == hash {
      return new.hash(ofGateway: substitute)
    }
    return NetworkHash(self.hash(.network, hash.description.utf8))
  }
}
