/// The unit of limits and fair turns: a user, or all users that one person may act as.
///
/// A uid alone is not enough, because `newuidmap` gives a login user thousands of them.
package struct Account: Hashable, Sendable {
  /// The kinds of accounts. Each has a reserved share of the limits that the others cannot use up.
  package enum Pot: Hashable, Sendable, CaseIterable {
    case root
    /// Users of services, including systemd's dynamic users.
    case services
    case people
  }

  /// The uid that represents the account.
  package let number: UInt32

  package static let root = Account(number: 0)
  /// All users without a known owner. No user has this uid (setreuid(2)).
  package static let unknown = Account(number: .max)

  package init(number: UInt32) {
    self.number = number
  }

  /// Creates the account of a uid by systemd's table alone (Users, Groups, UIDs and GIDs). Each
  /// regular user, each systemd-homed user, and each service has a separate account.
  package init(ofUID uid: UInt32) {
    let isKnown = (0...60_513).contains(uid) || (61_184...65_519).contains(uid)
    self = isKnown ? Account(number: uid) : .unknown
  }

  package var pot: Pot {
    switch self.number {
    case 0: .root
    case 1..<1000, 61_184...65_519: .services
    default: .people
    }
  }
}

/// A user, and the account that it belongs to. Only quotas distinguish the users of an account.
package struct AccountUser: Hashable, Sendable {
  package var uid: UInt32
  package var account: Account

  package init(_ uid: UInt32, of account: Account) {
    self.uid = uid
    self.account = account
  }
}
