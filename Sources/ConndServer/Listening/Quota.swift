import UnixTransport

/// How much of something there is, by account. A value without I/O.
struct Usage: Sendable {
  private(set) var count = 0
  private var counts: [Account: Int] = [:]
  private var potCounts: [Account.Pot: Int] = [:]

  func count(of account: Account) -> Int { self.counts[account] ?? 0 }
  func count(of pot: Account.Pot) -> Int { self.potCounts[pot] ?? 0 }

  mutating func add(_ amount: Int = 1, of account: Account) {
    self.count += amount
    self.counts[account, default: 0] += amount
    self.potCounts[account.pot, default: 0] += amount
  }

  /// Removes what was added before, and nothing more.
  mutating func remove(_ amount: Int = 1, of account: Account) {
    guard let own = self.counts[account] else { return }
    let amount = min(amount, own)
    self.count -= amount
    self.counts[account] = own > amount ? own - amount : nil
    self.potCounts[account.pot, default: 0] -= amount
  }
}

/// How much of something there may be: connections, calls, questions, flows, or bytes that wait.
///
/// Each pot has a part that the other pots cannot use: root a sixteenth, services and people three sixteenths each. The rest
/// goes to whoever comes first. Within services and within people, a newcomer gets two thirds of what is left (as dbus-broker
/// divides it), so that several accounts together cannot take everything either.
struct Quota: Hashable, Sendable {
  /// Why there may not be more.
  enum Refusal: Error, Hashable {
    /// There are this many already.
    case inAll(Int)
    /// What is left of this many is kept for others.
    case forOthers(of: Int)
    /// The account has this many already.
    case ofOneUser(Int)
  }

  /// May be lower than what there is. Then nothing is taken away, and nothing is admitted.
  var inAll: Int
  var ofOneUser: Int

  /// The part that the other pots cannot use.
  func reserve(of pot: Account.Pot) -> Int {
    switch pot {
    case .root: self.inAll / 16
    case .services, .people: self.inAll * 3 / 16
    }
  }

  /// What is left for a pot: the others' unused reserves are not.
  func left(for pot: Account.Pot, beside usage: Usage) -> Int {
    let others = Account.Pot.allCases.filter { $0 != pot }
    let unusedReserves = others.map { max(0, self.reserve(of: $0) - usage.count(of: $0)) }
    return self.inAll - usage.count - unusedReserves.reduce(0, +)
  }

  /// - Throws: if an account may not have this much more.
  func check(_ amount: Int = 1, of account: Account, beside usage: Usage) throws(Refusal) {
    let own = usage.count(of: account)
    // The client can do something about its own limit, so that comes first.
    guard own + amount <= self.ofOneUser else { throw .ofOneUser(self.ofOneUser) }
    let left = self.left(for: account.pot, beside: usage) - amount
    let isFair = account == .root || own == 0 || own + amount <= 2 * left
    guard left >= 0, isFair else {
      throw usage.count + amount <= self.inAll ? .forOthers(of: self.inAll) : .inAll(self.inAll)
    }
  }
}
