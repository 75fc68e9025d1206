import DequeModule

/// What waits to be done for users, by the time that each has taken: it is the turn of whoever had least.
///
/// Users who want much share what time there is, and who wants little now and then is next. Nobody saves time up: who comes after a
/// while begins with what would have been his share (virtual time, as in weighted fair queueing), but for one turn that he is ahead
/// of those who wait already. However many come, these are next when the share has passed them by so much. How much of a user's
/// waits is bounded where it comes in.
package struct FairShare<Item> {
  private struct Account {
    var items: Deque<Item> = []
    /// How much time it has taken, and how much it was given for the time when it wanted none.
    var taken: Duration
  }

  /// Where there are several users: of those for whom something waits, and of those who have lately had more than others.
  private var accounts: [UInt32: Account] = [:]
  private var waiting: Set<UInt32> = []
  /// What one who always wanted something would have had.
  private var share = Duration.zero
  /// With more accounts it is looked which of them are needed.
  private var mostAccounts = 16
  /// While there is one user alone, as there is mostly, nobody counts what he takes.
  private var alone: (user: UInt32, items: Deque<Item>)?

  private(set) var count = 0

  /// What a newcomer is ahead: as long as a turn takes, mostly.
  private static var credit: Duration { .milliseconds(1) }

  package init() {}

  func count(of user: UInt32) -> Int {
    self.alone?.user == user
      ? self.alone?.items.count ?? 0 : self.accounts[user]?.items.count ?? 0
  }

  package var isEmpty: Bool { self.count == 0 }

  package mutating func append(_ item: Item, of user: UInt32) {
    self.count += 1
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
      let start = self.share - Self.credit
      self.accounts[user] = Account(taken: max(self.accounts[user]?.taken ?? start, start))
    }
    self.accounts[user]?.items.append(item)
  }

  /// Takes the first of the user whose turn it is.
  package mutating func popFirst() -> (item: Item, user: UInt32)? {
    if let user = self.alone?.user {
      guard let item = self.alone?.items.popFirst() else { return nil }
      self.count -= 1
      return (item, user)
    }
    guard let user = self.next, let item = self.accounts[user]?.items.popFirst() else { return nil }
    self.count -= 1
    if self.accounts[user]?.items.isEmpty == true { self.waiting.remove(user) }
    return (item, user)
  }

  /// The user has taken so much time.
  package mutating func charge(_ time: Duration, to user: UInt32) {
    if self.accounts.isEmpty { return }
    self.accounts[user]?.taken += time
    let others = self.waiting.count - (self.waiting.contains(user) ? 1 : 0)
    self.share += time / (others + 1)
    if self.waiting.isEmpty {
      // Nobody waits: nobody has had more than there was.
      (self.accounts, self.share, self.mostAccounts) = ([:], .zero, 16)
    } else if self.accounts.count > self.mostAccounts {
      // Of users who have gone, and would begin anew, nothing is kept.
      let (waiting, start) = (self.waiting, self.share - Self.credit)
      self.accounts = self.accounts.filter { waiting.contains($0.key) || $0.value.taken > start }
      self.mostAccounts = 2 * self.accounts.count + 16
    }
  }

  /// Takes all that `isChosen`, whoever waits for it.
  package mutating func remove(where isChosen: (Item) -> Bool) -> [Item] {
    var chosen: [Item] = []
    defer { self.count -= chosen.count }
    if var items = self.alone?.items {
      chosen = items.remove(where: isChosen)
      if !chosen.isEmpty { self.alone?.items = items }
      return chosen
    }
    for user in self.waiting.sorted() {
      guard var items = self.accounts[user]?.items, items.contains(where: isChosen) else {
        continue
      }
      chosen += items.remove(where: isChosen)
      self.accounts[user]?.items = items
      if items.isEmpty { self.waiting.remove(user) }
    }
    return chosen
  }

  private var next: UInt32? {
    if self.waiting.count == 1 { return self.waiting.first }
    return self.waiting.min { (self.taken(by: $0), $0) < (self.taken(by: $1), $1) }
  }

  private func taken(by user: UInt32) -> Duration { self.accounts[user]?.taken ?? .zero }
}

extension Deque {
  fileprivate mutating func remove(where isChosen: (Element) -> Bool) -> [Element] {
    let chosen = self.filter(isChosen)
    if !chosen.isEmpty { self.removeAll(where: isChosen) }
    return Array(chosen)
  }
}
