/// A modem's link as ModemManager describes it.
package struct ModemLink: Hashable, Sendable {
  /// The bearer that the link belongs to is connected. False also where nothing is said of it any more: that it is a modem's is
  /// known all the same.
  package var isConnected: Bool
  /// It is connected, and carries nothing for the moment: of 2G, during a call.
  package var isSuspended: Bool
  /// The newest that the modem uses now; `nil` where that is not known.
  package var generation: MobileGeneration?
  /// The network is not that of the subscription.
  package var isRoaming: Bool
  /// Whose network it is; `nil` where that is not known.
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

  /// One of which nothing is said any more.
  package static let silent = ModemLink(isConnected: false)
}

/// Whose mobile network a modem is in.
package struct MobileOperator: Hashable, Sendable {
  /// Its country's and its own code (MCC and MNC, 3GPP TS 23.003, 2.2): five or six digits.
  package var code: String
  /// As it calls itself; empty where that is not known.
  package var name: String

  package init(code: String, name: String = "") {
    self.code = code
    self.name = name
  }
}

/// What a mobile network's technology is sold as.
package enum MobileGeneration: String, Hashable, Sendable, CaseIterable, Comparable {
  case second = "2G"
  case third = "3G"
  case fourth = "4G"
  case fifth = "5G"

  package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// What ModemManager says of a link from now on that may matter to a path.
package struct ModemChange: Hashable, Sendable {
  /// What happened.
  package enum Kind: Hashable, Sendable, CaseIterable {
    case connected
    /// The bearer is not connected any more, or nothing is said of it.
    case disconnected
    case suspended
    case resumed
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
