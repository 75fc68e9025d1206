import DequeModule

/// What waits to be done for users, by the time that each has taken: it is the turn of whoever had least.
///
/// Users who want much share what time there is, and who wants little now and then does not wait behind them. Nobody saves time
/// up: who comes after a while begins with what would have been his share (virtual time, as in weighted fair queueing).
struct FairShare<Item> {
  private struct Account {
    var items: Deque<Item> = []
    /// How much time it has taken, and how much it was given for the time when it wanted none.
    var taken: Duration
  }

  /// Where there are several users: of those for whom something waits, and of those who have lately had more than their share.
  private var accounts: [UInt32: Account] = [:]
  private var waiting: Set<UInt32> = []
  /// What one who always wanted something would have had.
  private var share = Duration.zero
  /// While there is one user alone, as there is mostly, what he takes is what he would have had: nobody counts it.
  private var alone: (user: UInt32, items: Deque<Item>)?

  var isEmpty: Bool { self.waiting.isEmpty && self.alone?.items.isEmpty ?? true }

  mutating func append(_ item: Item, of user: UInt32) {
    if self.accounts.isEmpty {
      if self.alone?.user == user {
        self.alone?.items.append(item)
        return
      }
      guard let first = self.alone.take() else {
        self.alone = (user, [item])
        return
      }
      // There are two from now on.
      self.accounts[first.user] = Account(items: first.items, taken: self.share)
      if !first.items.isEmpty { self.waiting.insert(first.user) }
    }
    if self.waiting.insert(user).inserted {
      self.accounts[user] = Account(taken: max(self.accounts[user]?.taken ?? .zero, self.share))
    }
    self.accounts[user]?.items.append(item)
  }

  /// Takes the first of the user whose turn it is.
  mutating func popFirst() -> (item: Item, user: UInt32)? {
    if let user = self.alone?.user {
      return self.alone?.items.popFirst().map { ($0, user) }
    }
    guard let user = self.next, let item = self.accounts[user]?.items.popFirst() else { return nil }
    if self.accounts[user]?.items.isEmpty == true { self.waiting.remove(user) }
    return (item, user)
  }

  /// The user has taken so much time.
  mutating func charge(_ time: Duration, to user: UInt32) {
    if self.accounts.isEmpty { return }
    self.accounts[user]?.taken += time
    let others = self.waiting.count - (self.waiting.contains(user) ? 1 : 0)
    self.share += time / (others + 1)
    if self.waiting.isEmpty {
      // Nobody waits: nobody has had more than there was.
      (self.accounts, self.share) = ([:], .zero)
    } else if self.accounts.count > 2 * self.waiting.count + 16 {
      // Of users who have gone, and would begin anew, nothing is kept.
      let (waiting, share) = (self.waiting, self.share)
      self.accounts = self.accounts.filter { waiting.contains($0.key) || $0.value.taken > share }
    }
  }

  private var next: UInt32? {
    if self.waiting.count == 1 { return self.waiting.first }
    return self.waiting.min { (self.taken(by: $0), $0) < (self.taken(by: $1), $1) }
  }

  private func taken(by user: UInt32) -> Duration { self.accounts[user]?.taken ?? .zero }
}
