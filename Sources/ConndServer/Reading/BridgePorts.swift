import Connectivity
import ConnectivityRules
import OrderedCollections

/// The ports behind which bridges reach MAC addresses: they show behind which link a gateway is
/// (K6). This is a value without a kernel: it takes the kernel's answers.
struct BridgePorts {
  struct Key: Hashable {
    var bridge: UInt32
    var hardwareAddress: [UInt8]
  }

  /// The place where a bridge reaches a MAC address.
  struct Place {
    /// `nil` if the bridge has never learnt the address.
    var port: UInt32?
    /// Whether the bridge knows it now.
    var isPresent: Bool
  }

  /// The port of each MAC address, or `nil` while the bridge has not learnt it.
  private var ports = OrderedDictionary<Key, UInt32?>()
  /// Whether the kernel's filter does not cover everything known here.
  private(set) var isNew = false

  /// With more than this, all are forgotten and learnt again.
  private static let maxPorts = 64

  /// The MAC addresses that matter behind bridges.
  var hardwareAddresses: [[UInt8]] {
    Set(self.ports.keys.map(\.hardwareAddress)).sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// The questions after the filter was set.
  var keys: [Key] { Array(self.ports.keys) }

  /// Follows a MAC address: from now on the kernel reports when the bridge learns more.
  mutating func follow(_ key: Key) {
    guard self.ports[key] == nil else { return }
    if self.ports.count >= Self.maxPorts { self.ports = [:] }
    self.ports[key] = .some(nil)
    self.isNew = true
  }

  /// Updates from the kernel's answer, or `nil` if the bridge does not know the MAC address now.
  ///
  /// - Returns: The place at which the bridge reaches it, or reached it last.
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

  /// Notes that the kernel's filter now covers everything.
  mutating func acceptFilter() { self.isNew = false }

  /// Returns the message that the filter has held back about a MAC address, or `nil` if it did not.
  func missed(_ port: UInt32?, of key: Key) -> KernelEvent? {
    guard let port, let known = self.ports[key], known != port else { return nil }
    return .bridgeEntry(BridgeEntry(key.hardwareAddress, port: port, bridge: key.bridge))
  }
}
