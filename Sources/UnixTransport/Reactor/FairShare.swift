/// A queue of work in turns by user.
///
/// Each user has a virtual time, which grows by the time that the user's turns take. The user with
/// the earliest virtual time gets the next turn (start-time fair queueing). Thus busy users share
/// the time equally.
///
/// The present time is the virtual time of the busy users' turns. A user that returns starts at
/// most a credit before the present time, so that it cannot save up turns. A user that has lately
/// used little time gets a larger credit than a busy user. Thus a user that asks seldom gets the
/// next turn, although each busy user asks again after its answer. If virtual times are equal, the
/// user that has lately used the least time is next. The caller bounds how much work one user may
/// add.
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
    let user: User
    var items = Queue<Item>()
    /// The virtual time of the user's next turn.
    var time: Duration
    /// The time that the user has used lately, in nanoseconds. It halves in each period.
    var recent = 0
    /// The period in which `recent` was updated last.
    var period: Int
    /// Whether the queue has an entry for the account.
    var isQueued = false
  }

  /// Waiting users, and users that may have used time lately. Empty until there are several users.
  /// Accounts of forgotten users are reused.
  private var accounts: [Account] = []
  private var places: [User: Int] = [:]
  private var unused: [Int] = []
  /// An entry for each account with items. Entries of accounts without items are removed when they
  /// reach the front.
  private var queue = TurnQueue()
  private var waitingUsers = 0
  /// The virtual time of the latest turn.
  private var time = Duration.zero
  private var period = 0
  /// The time that users have used in this period.
  private var usedInPeriod = Duration.zero
  /// The number of accounts above which unneeded accounts are forgotten.
  private var maxAccounts = 16
  /// The user and its items if there is only one user, which is the usual case. The time of that
  /// user is not counted.
  private var alone: (user: User, items: Queue<Item>)?

  private(set) package var count = 0

  /// How far before the present time a new user starts: about the length of a turn.
  private static var credit: Duration { .milliseconds(1) }
  /// The recent use, in nanoseconds, below which a user has used little and may be forgotten.
  private static var littleUse: Int { 1_000_000 }
  /// How much later a user starts if it has lately used more than a little.
  private static var busyDelay: Duration { .microseconds(500) }
  /// The minimum time to charge for a turn, because a clock may stand still.
  private static var minTurn: Duration { .microseconds(1) }
  /// The total time used by all users after which past use counts half.
  private static var halfLife: Duration { .milliseconds(50) }

  package init() {}

  package func count(of user: User) -> Int {
    if let alone = self.alone { return alone.user == user ? alone.items.count : 0 }
    return self.places[user].map { self.accounts[$0].items.count } ?? 0
  }

  package var isEmpty: Bool { self.count == 0 }

  /// Returns the first items of each user, at most this many.
  package func firstItems(_ count: Int) -> [Item] {
    (self.alone.map { [$0.items] } ?? self.accounts.map(\.items)).flatMap { $0.prefix(count) }
  }

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
      let place = self.place(of: first.user, startingAt: self.time)
      if !first.items.isEmpty { self.begin(place, first.items) }
    }
    let place = self.place(of: user, startingAt: self.time - Self.credit)
    if self.accounts[place].items.isEmpty {
      self.begin(place, Queue())
    }
    self.accounts[place].items.append(item)
  }

  private mutating func place(of user: User, startingAt time: Duration) -> Int {
    if let place = self.places[user] { return place }
    let account = Account(user: user, time: time, period: self.period)
    let place = self.unused.popLast() ?? self.accounts.count
    if place < self.accounts.count {
      self.accounts[place] = account
    } else {
      self.accounts.append(account)
    }
    self.places[user] = place
    return place
  }

  /// Notes that a user begins to wait.
  private mutating func begin(_ place: Int, _ items: Queue<Item>) {
    self.waitingUsers += 1
    self.accounts[place].items = items
    self.fade(place)
    let recent = self.recent(of: place)
    let start = self.time - Self.credit + (recent > 0 ? Self.busyDelay : .zero)
    if self.accounts[place].time < start { self.accounts[place].time = start }
    guard !self.accounts[place].isQueued else { return }
    self.accounts[place].isQueued = true
    self.queue.insert(place, at: self.accounts[place].time, recent)
  }

  /// Takes the first item of the user with the next turn.
  package mutating func popFirst() -> (item: Item, user: User)? {
    if let user = self.alone?.user {
      guard let item = self.alone?.items.popFirst() else { return nil }
      self.count -= 1
      return (item, user)
    }
    guard let place = self.nextPlace(), let item = self.accounts[place].items.popFirst() else {
      return nil
    }
    self.count -= 1
    if self.accounts[place].items.isEmpty { self.waitingUsers -= 1 }
    self.time = max(self.time, self.accounts[place].time)
    return (item, self.accounts[place].user)
  }

  /// Returns the account with the next turn. Accounts that have used time since they were queued
  /// move back first.
  private mutating func nextPlace() -> Int? {
    while let (place, time) = self.queue.first {
      guard !self.accounts[place].items.isEmpty else {
        self.queue.removeFirst()
        self.accounts[place].isQueued = false
        continue
      }
      if self.accounts[place].time <= time { return place }
      self.fade(place)
      self.queue.delayFirst(to: self.accounts[place].time, self.recent(of: place))
    }
    return nil
  }

  /// Charges a user for the time that its turn took.
  package mutating func charge(_ time: Duration, to user: User) {
    guard let place = self.places[user] else { return }
    let time = max(time, Self.minTurn)
    if self.accounts[place].time < self.time - Self.busyDelay {
      // If the present time stood still, new users would starve busy ones. If it advanced at full
      // speed, busy users that were new at the same time would never use up their credit.
      let waiting = self.waitingUsers - (self.accounts[place].items.isEmpty ? 0 : 1)
      self.time += time / ((self.accounts[place].recent == 0 ? 1 : 2) * (waiting + 1))
    }
    self.accounts[place].time += time
    self.fade(place)
    self.accounts[place].recent += Int(min(time, .seconds(1)) / .nanoseconds(1))
    self.usedInPeriod += time
    if self.usedInPeriod >= Self.halfLife {
      self.period += Int(self.usedInPeriod / Self.halfLife)
      self.usedInPeriod = .zero
      if self.isEmpty { self.forget() }
    } else if self.places.count > self.maxAccounts {
      self.forget()
    }
  }

  /// Returns the recent use of a user, or 0 if it is little. Users with little use are equal.
  private func recent(of place: Int) -> Int {
    let recent = self.accounts[place].recent
    return recent < Self.littleUse ? 0 : recent
  }

  /// Brings the recent use of a user up to date.
  private mutating func fade(_ place: Int) {
    let periods = self.period - self.accounts[place].period
    guard periods > 0 else { return }
    self.accounts[place].recent >>= periods
    self.accounts[place].period = self.period
  }

  /// Forgets users that would start like a new user.
  private mutating func forget() {
    if self.isEmpty {
      self.queue = TurnQueue()
      for place in self.places.values { self.accounts[place].isQueued = false }
    }
    let start = self.time - Self.credit
    for (user, place) in self.places {
      self.fade(place)
      let account = self.accounts[place]
      guard !account.isQueued, account.time <= start, account.recent < Self.littleUse else {
        continue
      }
      self.places[user] = nil
      self.unused.append(place)
    }
    self.maxAccounts = self.places.count + self.places.count / 2 + 16
    if self.places.count < 2, self.isEmpty {
      self.alone = self.places.first.map { ($0.key, Queue()) }
      (self.accounts, self.places, self.unused) = ([], [:], [])
      (self.time, self.maxAccounts) = (.zero, 16)
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
    return self.places[user].map { self.remove(at: $0, where: isChosen) } ?? []
  }

  private mutating func remove(at place: Int, where isChosen: (Item) -> Bool) -> [Item] {
    var items = self.accounts[place].items
    let chosen = items.remove(where: isChosen)
    if chosen.isEmpty { return [] }
    if items.isEmpty { self.waitingUsers -= 1 }
    self.accounts[place].items = items
    self.count -= chosen.count
    return chosen
  }

  /// Takes all items that satisfy the predicate.
  package mutating func remove(where isChosen: (Item) -> Bool) -> [Item] {
    if let user = self.alone?.user { return self.remove(of: user, where: isChosen) }
    return self.queue.places.flatMap { self.remove(at: $0, where: isChosen) }
  }
}

/// A binary heap of accounts by the times of their turns, the earliest first. If times are equal,
/// less recent use comes first, and then the order in which they were inserted or delayed.
private struct TurnQueue {
  private struct Entry {
    var time: Duration
    var recent: Int
    var number: UInt64
    var place: Int

    func isBefore(_ other: Self) -> Bool {
      (self.time, self.recent, self.number) < (other.time, other.recent, other.number)
    }
  }

  private var entries: [Entry] = []
  private var lastNumber: UInt64 = 0

  var first: (place: Int, time: Duration)? { self.entries.first.map { ($0.place, $0.time) } }

  /// The accounts in the order of their turns, which is deterministic.
  var places: [Int] { self.entries.sorted { $0.isBefore($1) }.map(\.place) }

  mutating func insert(_ account: Int, at time: Duration, _ recent: Int) {
    self.lastNumber += 1
    self.entries.append(
      Entry(time: time, recent: recent, number: self.lastNumber, place: account))
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

  mutating func delayFirst(to time: Duration, _ recent: Int) {
    self.lastNumber += 1
    self.entries[0].time = time
    (self.entries[0].recent, self.entries[0].number) = (recent, self.lastNumber)
    self.moveFirstDown()
  }

  private mutating func moveFirstDown() {
    var place = 0
    while true {
      var least = place
      for child in [2 * place + 1, 2 * place + 2] where child < self.entries.count {
        if self.entries[child].isBefore(self.entries[least]) { least = child }
      }
      if least == place { return }
      self.entries.swapAt(place, least)
      place = least
    }
  }
}
