import LinuxSupport

/// The amount of a resource in use, by account. A value without I/O.
struct Usage: Sendable {
  private(set) var count = 0
  private var counts: [Account: Int] = [:]
  private var potCounts: [Account.Pot: Int] = [:]

  /// Whether nothing is in use.
  var isEmpty: Bool {
    self.count == 0 && self.counts.isEmpty && self.potCounts.values.allSatisfy { $0 == 0 }
  }

  func count(of account: Account) -> Int { self.counts[account] ?? 0 }
  func count(of pot: Account.Pot) -> Int { self.potCounts[pot] ?? 0 }

  mutating func add(_ amount: Int = 1, of account: Account) {
    self.count += amount
    self.counts[account, default: 0] += amount
    self.potCounts[account.pot, default: 0] += amount
  }

  /// Removes at most what was added before.
  mutating func remove(_ amount: Int = 1, of account: Account) {
    guard let own = self.counts[account] else { return }
    let amount = min(amount, own)
    self.count -= amount
    self.counts[account] = own > amount ? own - amount : nil
    self.potCounts[account.pot, default: 0] -= amount
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

  /// The amount up to which an account may use the reserve for accounts that use little.
  var little: Int { self.inAll / 256 }
  private var reserveOfLittle: Int { self.inAll / 16 }

  /// Returns the amount left for a pot, without the unused reserves of the others.
  func left(for pot: Account.Pot, beside usage: Usage) -> Int {
    let others = Account.Pot.allCases.filter { $0 != pot }
    let unusedReserves = others.map { max(0, self.reserve(of: $0) - usage.count(of: $0)) }
    return self.inAll - usage.count - unusedReserves.reduce(0, +)
  }

  /// - Throws: An error if the account may not use this much more.
  func check(_ amount: Int = 1, of account: Account, beside usage: Usage) throws(Refusal) {
    let own = usage.count(of: account)
    // The client can reduce its own use, so its own limit comes first.
    guard own + amount <= self.ofOneUser else { throw .ofOneUser(self.ofOneUser) }
    let left = self.left(for: account.pot, beside: usage) - amount
    let isFair =
      account == .root || own == 0 || own + amount <= self.little
      || own + amount <= 2 * left && left >= self.reserveOfLittle
    guard left >= 0, isFair else {
      throw usage.count + amount <= self.inAll ? .forOthers(of: self.inAll) : .inAll(self.inAll)
    }
  }
}
