/// A queue of work in turns by user: the next turn goes to the user that has used the least time.
///
/// Busy users share the time equally, and a user with little work is served next. Idle users earn
/// no credit. A returning user starts at the time that a user who is always waiting would have
/// received (virtual time, as in weighted fair queueing), less one turn. This turn puts the
/// returning user ahead of waiting users. Newcomers do not starve waiting users, because the
/// virtual time grows. The caller bounds how much work one user may add.
///
/// A turn costs O(log n) for n waiting users.
///
/// This type is in the reactor's module, because the reactor takes a turn for each job. From
/// another module, the compiler does not specialize it: an event then costs connctl 31,000
/// instructions more.
///
/// Implements rule D4.
package struct FairShare<User: Hashable, Item> {
  private struct Account {
    var items = Queue<Item>()
    /// The time that the user has used, raised to about ``share`` after idle periods.
    var taken: Duration
    /// Whether the queue has an entry for the user.
    var isQueued = false
  }

  /// Waiting users, and users that recently used more time than others. Empty until there are
  /// several users.
  private var accounts: [User: Account] = [:]
  /// An entry for each account with items. Entries of accounts without items are removed when they
  /// reach the front.
  private var queue = TurnQueue<User>()
  private var waitingUsers = 0
  /// The virtual time, which a user who is always waiting would have received.
  private var share = Duration.zero
  /// The number of accounts above which unneeded ones are removed.
  private var maxAccounts = 16
  /// The only user, which is the usual case. Its time is not counted.
  private var alone: (user: User, items: Queue<Item>)?

  private(set) package var count = 0

  /// A newcomer's credit: about the length of a turn.
  private static var credit: Duration { .milliseconds(1) }

  package init() {}

  package func count(of user: User) -> Int {
    self.alone?.user == user
      ? self.alone?.items.count ?? 0 : self.accounts[user]?.items.count ?? 0
  }

  package var isEmpty: Bool { self.count == 0 }

  package mutating func append(_ item: Item, of user: User) {
    self.count += 1
    if self.accounts.isEmpty {
      if self.alone?.user == user {
        self.alone?.items.append(item)
        return
      }
      guard let first = self.alone.take() else {
        self.alone = (user, Queue())
        self.alone?.items.append(item)
        return
      }
      self.accounts[first.user] = Account(items: first.items, taken: self.share)
      if !first.items.isEmpty {
        self.waitingUsers += 1
        self.enqueue(first.user)
      }
    }
    let start = self.share - Self.credit
    if self.accounts[user] == nil { self.accounts[user] = Account(taken: start) }
    if self.accounts[user]?.items.isEmpty == true {
      self.waitingUsers += 1
      if let taken = self.accounts[user]?.taken, taken < start {
        self.accounts[user]?.taken = start
      }
      self.enqueue(user)
    }
    self.accounts[user]?.items.append(item)
  }

  private mutating func enqueue(_ user: User) {
    guard let account = self.accounts[user], !account.isQueued else { return }
    self.accounts[user]?.isQueued = true
    self.queue.insert(user, at: account.taken)
  }

  /// Takes the first item of the user whose turn it is.
  package mutating func popFirst() -> (item: Item, user: User)? {
    if let user = self.alone?.user {
      guard let item = self.alone?.items.popFirst() else { return nil }
      self.count -= 1
      return (item, user)
    }
    guard let user = self.nextUser(), let item = self.accounts[user]?.items.popFirst() else {
      return nil
    }
    self.count -= 1
    if self.accounts[user]?.items.isEmpty == true { self.waitingUsers -= 1 }
    return (item, user)
  }

  /// Returns the user whose turn is next. Users that have used time since they were queued move
  /// back first.
  private mutating func nextUser() -> User? {
    while let (user, time) = self.queue.first {
      guard let account = self.accounts[user], !account.items.isEmpty else {
        self.queue.removeFirst()
        self.accounts[user]?.isQueued = false
        continue
      }
      if account.taken <= time { return user }
      self.queue.delayFirst(to: account.taken)
    }
    return nil
  }

  /// Charges a user for the time that its turn took.
  package mutating func charge(_ time: Duration, to user: User) {
    if self.accounts.isEmpty { return }
    self.accounts[user]?.taken += time
    let isWaiting = self.accounts[user].map { !$0.items.isEmpty } ?? false
    self.share += time / (self.waitingUsers - (isWaiting ? 1 : 0) + 1)
    if self.waitingUsers == 0 {
      // If no user is waiting, past use does not matter.
      self.accounts = [:]
      self.queue = TurnQueue()
      (self.share, self.maxAccounts) = (.zero, 16)
    } else if self.accounts.count > self.maxAccounts {
      // Forget users without work whose return would start at about ``share`` anyway.
      let start = self.share - Self.credit
      self.accounts = self.accounts.filter {
        $0.value.isQueued || !$0.value.items.isEmpty || $0.value.taken > start
      }
      self.maxAccounts = 2 * self.accounts.count + 16
    }
  }

  /// Takes all items of a user that satisfy the predicate.
  package mutating func remove(of user: User, where isChosen: (Item) -> Bool) -> [Item] {
    if self.alone?.user == user, var items = self.alone?.items {
      let chosen = items.remove(where: isChosen)
      if !chosen.isEmpty { self.alone?.items = items }
      self.count -= chosen.count
      return chosen
    }
    guard var items = self.accounts[user]?.items else { return [] }
    let chosen = items.remove(where: isChosen)
    if chosen.isEmpty { return [] }
    if items.isEmpty { self.waitingUsers -= 1 }
    self.accounts[user]?.items = items
    self.count -= chosen.count
    return chosen
  }

  /// Takes all items that satisfy the predicate.
  package mutating func remove(where isChosen: (Item) -> Bool) -> [Item] {
    if let user = self.alone?.user { return self.remove(of: user, where: isChosen) }
    return self.queue.users.flatMap { self.remove(of: $0, where: isChosen) }
  }
}

/// A binary heap of users by the times of their turns, the earliest first. Users with equal times
/// keep the order in which they were inserted or delayed.
private struct TurnQueue<User> {
  private struct Entry {
    var time: Duration
    var number: UInt64
    var user: User

    func isBefore(_ other: Self) -> Bool { (self.time, self.number) < (other.time, other.number) }
  }

  private var entries: [Entry] = []
  private var lastNumber: UInt64 = 0

  var first: (user: User, time: Duration)? { self.entries.first.map { ($0.user, $0.time) } }

  /// The users in the order of their turns, which is deterministic.
  var users: [User] { self.entries.sorted { $0.isBefore($1) }.map(\.user) }

  mutating func insert(_ user: User, at time: Duration) {
    self.lastNumber += 1
    self.entries.append(Entry(time: time, number: self.lastNumber, user: user))
    var place = self.entries.count - 1
    while place > 0, self.entries[place].isBefore(self.entries[(place - 1) / 2]) {
      self.entries.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  mutating func removeFirst() {
    self.entries.swapAt(0, self.entries.count - 1)
    self.entries.removeLast()
    self.moveFirstDown()
  }

  mutating func delayFirst(to time: Duration) {
    self.lastNumber += 1
    (self.entries[0].time, self.entries[0].number) = (time, self.lastNumber)
    self.moveFirstDown()
  }

  private mutating func moveFirstDown() {
    var place = 0
    while true {
      var smallest = place
      for child in [2 * place + 1, 2 * place + 2] where child < self.entries.count {
        if self.entries[child].isBefore(self.entries[smallest]) { smallest = child }
      }
      if smallest == place { return }
      self.entries.swapAt(place, smallest)
      place = smallest
    }
  }
}
