import LinuxSupport

/// The amount of a resource in use, by account. A value without I/O.
struct Usage: Sendable {
  private(set) var count = 0
  private var counts: [Account: Int] = [:]
  private var potCounts: [Account.Pot: Int] = [:]
  /// The amounts of the users of ``Account/unknown``, by uid.
  private var unknownCounts: [UInt32: Int] = [:]

  /// Whether nothing is in use.
  var isEmpty: Bool {
    self.count == 0 && self.counts.isEmpty && self.potCounts.isEmpty
      && self.unknownCounts.isEmpty
  }

  func count(of account: Account) -> Int { self.counts[account] ?? 0 }
  func count(of pot: Account.Pot) -> Int { self.potCounts[pot] ?? 0 }

  /// Returns the amount of a user of ``Account/unknown``, or else of the user's account.
  func count(of user: AccountUser) -> Int {
    user.account == .unknown
      ? self.unknownCounts[user.uid] ?? 0 : self.count(of: user.account)
  }

  mutating func add(_ amount: Int = 1, of user: AccountUser) {
    self.count += amount
    self.counts[user.account, default: 0] += amount
    self.potCounts[user.account.pot, default: 0] += amount
    if user.account == .unknown { self.unknownCounts[user.uid, default: 0] += amount }
  }

  /// Removes at most what was added before.
  mutating func remove(_ amount: Int = 1, of user: AccountUser) {
    let amount = min(amount, self.count(of: user))
    self.count -= amount
    self.counts.decrement(user.account, by: amount)
    self.potCounts.decrement(user.account.pot, by: amount)
    if user.account == .unknown { self.unknownCounts.decrement(user.uid, by: amount) }
  }
}

extension Dictionary where Value == Int {
  /// Decreases a count, and removes the entry when it reaches zero.
  mutating func decrement(_ key: Key, by amount: Int = 1) {
    guard let count = self[key] else { return }
    self[key] = count > amount ? count - amount : nil
  }
}

/// The limits of a resource: connections, calls, queries, flows, or pending bytes.
///
/// Each ``Account/Pot`` has a part that the other pots cannot use: a sixteenth for root, three
/// sixteenths each for services and people. The rest is first come, first served. Within services
/// and within people, an account gets at most two thirds of what is left, as in dbus-broker. So
/// several accounts together cannot take everything either.
///
/// If five greedy accounts each take two thirds of the rest, only a few of 2,048 calls remain. So a
/// sixteenth is reserved for accounts that use little, at most a 256th for each. That lets an
/// ordinary client work beside greedy ones.
///
/// The users of ``Account/unknown`` may be strangers to each other, such as those of a directory
/// service. So the same two rules divide the limit of this account between its users.
///
/// Implements rule D4.
struct Quota: Hashable, Sendable {
  /// The reason why no more is admitted.
  enum Refusal: Error, Hashable {
    /// The total has reached this limit.
    case inAll(Int)
    /// The rest of this limit is reserved for other accounts.
    case forOthers(of: Int)
    /// The account has reached this limit.
    case ofOneUser(Int)
    /// The rest of this limit is reserved for other users of ``Account/unknown``.
    case forOtherUnknown(of: Int)
  }

  /// The limit for all accounts together. If it is lowered below the amount in use, nothing is
  /// revoked and nothing more is admitted.
  var inAll: Int
  var ofOneUser: Int

  /// Returns the part that the other pots cannot use.
  func reserve(of pot: Account.Pot) -> Int {
    switch pot {
    case .root: self.inAll / 16
    case .services, .people: self.inAll * 3 / 16
    }
  }

  /// Returns the amount left for a pot, without the unused reserves of the others.
  func left(for pot: Account.Pot, beside usage: Usage) -> Int {
    let others = Account.Pot.allCases.filter { $0 != pot }
    let unusedReserves = others.map { max(0, self.reserve(of: $0) - usage.count(of: $0)) }
    return self.inAll - usage.count - unusedReserves.reduce(0, +)
  }

  /// - Throws: An error if the user may not use this much more.
  func check(_ amount: Int = 1, of user: AccountUser, beside usage: Usage) throws(Refusal) {
    let account = user.account
    let (own, ofUser) = (usage.count(of: account), usage.count(of: user))
    // The client can reduce its own use, so its own limit comes first.
    guard ofUser + amount <= self.ofOneUser, own == ofUser || own + amount <= self.ofOneUser else {
      throw own == ofUser ? .ofOneUser(self.ofOneUser) : .forOtherUnknown(of: self.ofOneUser)
    }
    let left = self.left(for: account.pot, beside: usage) - amount
    let isFair =
      account == .root || Self.isFair(amount, beside: own, left: left, of: self.inAll)
    guard left >= 0, isFair else {
      throw usage.count + amount <= self.inAll ? .forOthers(of: self.inAll) : .inAll(self.inAll)
    }
    guard account == .unknown else { return }
    let rest = self.ofOneUser - own - amount
    guard Self.isFair(amount, beside: ofUser, left: rest, of: self.ofOneUser) else {
      throw .forOtherUnknown(of: self.ofOneUser)
    }
  }

  /// Whether an account, or a user of an account, gets at most two thirds of the rest. The last
  /// sixteenth of the limit is reserved for users with at most a 256th.
  private static func isFair(
    _ amount: Int, beside own: Int, left: Int, of limit: Int
  ) -> Bool {
    own == 0 || own + amount <= limit / 256 || own + amount <= 2 * left && left >= limit / 16
  }
}
