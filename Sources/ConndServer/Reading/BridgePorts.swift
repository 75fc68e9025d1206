import Connectivity
import ConnectivityRules
import OrderedCollections

/// The bridge ports of MAC addresses, which show the link that a gateway is behind (K6). This value
/// never queries the kernel: callers pass in the kernel's answers.
struct BridgePorts {
  struct Key: Hashable {
    var bridge: UInt32
    var hardwareAddress: [UInt8]
  }

  /// The place where a bridge reaches a MAC address.
  struct Place {
    /// `nil` if the bridge has never learnt the address.
    var port: UInt32?
    /// Whether the bridge knows the address now.
    var isPresent: Bool
  }

  /// The port of each MAC address, or `nil` while the bridge has not learnt it.
  private var ports = OrderedDictionary<Key, UInt32?>()
  /// Whether the socket filter does not pass messages about all entries yet.
  private(set) var isNew = false

  /// The maximum number of followed MAC addresses. If there are more, all are forgotten and learnt
  /// again.
  private static let maxPorts = 64

  /// The MAC addresses that are followed on bridges.
  var hardwareAddresses: [[UInt8]] {
    Set(self.ports.keys.map(\.hardwareAddress)).sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// The entries to query again after the socket filter was replaced.
  var keys: [Key] { Array(self.ports.keys) }

  /// Follows a MAC address: from now on the kernel reports when its port changes.
  mutating func follow(_ key: Key) {
    guard self.ports[key] == nil else { return }
    if self.ports.count >= Self.maxPorts { self.ports = [:] }
    self.ports[key] = .some(nil)
    self.isNew = true
  }

  /// Updates from the kernel's answer, which is `nil` if the bridge does not know the MAC address.
  ///
  /// - Returns: The place at which the bridge reaches the address, or last reached it.
  mutating func learn(_ port: UInt32?, of key: Key) -> Place {
    if let port { self.ports[key] = port }
    return Place(port: self.ports[key] ?? nil, isPresent: port != nil)
  }

  /// Updates from kernel messages, in their order.
  mutating func note(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .bridgeEntry(let entry):
        for key in self.ports.keys
        where key.hardwareAddress == entry.hardwareAddress
          && entry.bridge.map({ $0 == key.bridge }) ?? true
        {
          self.ports[key] = entry.port
        }
      case .linkRemoved(let link): self.forget(bridge: link.index)
      default: break
      }
    }
  }

  /// Forgets a bridge that is gone.
  mutating func forget(bridge: UInt32) {
    self.ports = self.ports.filter { $0.key.bridge != bridge }
  }

  /// Notes that the socket filter now passes messages about all entries.
  mutating func acceptFilter() { self.isNew = false }

  /// Returns the message about an entry that the old socket filter dropped, or `nil` without one.
  func missed(_ port: UInt32?, of key: Key) -> KernelEvent? {
    guard let port, let known = self.ports[key], known != port else { return nil }
    return .bridgeEntry(BridgeEntry(key.hardwareAddress, port: port, bridge: key.bridge))
  }
}
