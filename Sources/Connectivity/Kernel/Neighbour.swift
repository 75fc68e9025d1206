/// The kernel's entry for a neighbour: the MAC address of an IP address on a link.
package struct Neighbour: Hashable, Sendable {
  package var address: IPAddress
  /// The index of the link.
  package var link: UInt32
  /// The MAC address, of six bytes on Ethernet and Wi-Fi, or `nil` if not known or no longer known.
  package var hardwareAddress: [UInt8]?
  /// Whether the kernel's requests for the address remained unanswered (`NUD_FAILED`).
  package var isFailed: Bool
  /// How long ago an answer or traffic confirmed the entry, or `nil` if the kernel did not report
  /// it. Comparisons ignore this age, because the neighbour remains the same.
  package var confirmed: Duration?

  /// The resolution of ``confirmed`` (USER_HZ).
  package static let precision = Duration.milliseconds(10)

  package init(
    _ address: IPAddress, link: UInt32, hardwareAddress: [UInt8]? = nil, isFailed: Bool = false,
    confirmed: Duration? = nil
  ) {
    self.address = address
    self.link = link
    self.hardwareAddress = hardwareAddress
    self.isFailed = isFailed
    self.confirmed = confirmed
  }
}

extension Neighbour {
  package static func == (left: Self, right: Self) -> Bool {
    left.address == right.address && left.link == right.link
      && left.hardwareAddress == right.hardwareAddress && left.isFailed == right.isFailed
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(self.address)
    hasher.combine(self.link)
    hasher.combine(self.hardwareAddress)
    hasher.combine(self.isFailed)
  }
}

/// The bridge port for a MAC address, as learnt by the bridge.
package struct BridgeEntry: Hashable, Sendable {
  package var hardwareAddress: [UInt8]
  /// The index of the port.
  package var port: UInt32
  /// The index of the bridge, or `nil` if the kernel did not report it.
  package var bridge: UInt32?

  package init(_ hardwareAddress: [UInt8], port: UInt32, bridge: UInt32? = nil) {
    self.hardwareAddress = hardwareAddress
    self.port = port
    self.bridge = bridge
  }
}
