/// A modem's link as reported by ModemManager.
package struct ModemLink: Hashable, Sendable {
  /// Whether the link's bearer is connected. Also false if ModemManager no longer reports the link,
  /// which connd still knows to be a modem's.
  package var isConnected: Bool
  /// Whether the bearer is connected but passes no traffic for now, as with 2G during a call.
  package var isSuspended: Bool
  /// The newest technology that the modem uses now, or `nil` if unknown.
  package var generation: MobileGeneration?
  /// Whether the modem uses a network other than that of its subscription.
  package var isRoaming: Bool
  /// The operator of the network, or `nil` if unknown.
  package var mobileOperator: MobileOperator?

  package init(
    isConnected: Bool = true, isSuspended: Bool = false, generation: MobileGeneration? = nil,
    isRoaming: Bool = false, mobileOperator: MobileOperator? = nil
  ) {
    self.isConnected = isConnected
    self.isSuspended = isSuspended
    self.generation = generation
    self.isRoaming = isRoaming
    self.mobileOperator = mobileOperator
  }

  /// Whether the technology carries so little that programs should send only what cannot wait.
  package var isSlow: Bool { self.generation == .second }

  /// A link that ModemManager no longer reports.
  package static let silent = ModemLink(isConnected: false)
}

/// The operator of a mobile network.
package struct MobileOperator: Hashable, Sendable {
  /// The country and network code (MCC and MNC, 3GPP TS 23.003, 2.2): five or six digits.
  package var code: String
  /// The operator's own name, or empty if unknown.
  package var name: String

  package init(code: String, name: String = "") {
    self.code = code
    self.name = name
  }
}

/// The generation of a mobile network's technology.
package enum MobileGeneration: String, Hashable, Sendable, CaseIterable, Comparable {
  case second = "2G"
  case third = "3G"
  case fourth = "4G"
  case fifth = "5G"

  package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// A change in ModemManager's reports that may affect a path.
package struct ModemChange: Hashable, Sendable {
  /// The kind of change.
  package enum Kind: Hashable, Sendable, CaseIterable {
    case connected
    /// The bearer is no longer connected, or no longer reported.
    case disconnected
    case suspended
    case resumed
    /// The modem now uses 2G, or no longer does (K10).
    case technologyChanged
    /// The modem is in another operator's network.
    case moved
  }

  package var kind: Kind
  /// The link's name.
  package var interface: String

  package init(_ kind: Kind, _ interface: String) {
    self.kind = kind
    self.interface = interface
  }
}
