/// The party that limits and turns are counted by: a user, or all users that one person may act as.
///
/// A uid alone is not enough, because `newuidmap` gives a login user thousands of them.
package struct Account: Hashable, Sendable {
  /// The kinds of accounts. Each has a part of what there is that the others cannot use up.
  package enum Pot: Hashable, Sendable, CaseIterable {
    case root
    /// Users of services, those that systemd makes up among them.
    case services
    case people
  }

  /// The uid that stands for the account.
  package let number: UInt32

  package static let root = Account(number: 0)
  /// All users whose owner is not known. No user has this uid (setreuid(2)).
  package static let unknown = Account(number: .max)

  package init(number: UInt32) {
    self.number = number
  }

  /// The account of a uid by systemd's table alone (Users, Groups, UIDs and GIDs): regular users and those of systemd-homed
  /// have one each, and so has each service.
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
