import TestKit
import Testing

@testable import UnixTransport

@Suite("Fair shares")
struct FairShareTests {
  @Test("D4 users get equal shares of the time, whatever their turns take")
  func shares() {
    var share = FairShare<UInt32, Int>()
    var taken: [UInt32: Int] = [:]
    // The first user has long turns on a hundred connections, the second short ones on one.
    for item in 0..<100 { share.append(item, of: 1) }
    share.append(0, of: 2)
    for _ in 0..<1000 {
      guard let turn = share.popFirst() else { break }
      let time = turn.user == 1 ? 10 : 1
      taken[turn.user, default: 0] += time
      share.append(turn.item, of: turn.user)
      share.charge(.milliseconds(time), to: turn.user)
    }
    #expect(abs((taken[1] ?? 0) - (taken[2] ?? 0)) <= 20)
  }

  @Test("D4 an occasional user is next, but has not saved up turns")
  func newcomer() {
    var share = FairShare<UInt32, Int>()
    func takeTurn() -> UInt32? {
      guard let user = share.takeTurn() else { return nil }
      share.append(0, of: user)
      share.charge(.milliseconds(1), to: user)
      return user
    }
    for user: UInt32 in 1...3 { share.append(0, of: user) }
    for _ in 0..<300 { #expect(takeTurn() != nil) }
    share.append(0, of: 9)
    #expect(takeTurn() == 9)
    #expect((0..<3).compactMap { _ in takeTurn() }.count { $0 == 9 } <= 1)
    let turns = (0..<400).compactMap { _ in takeTurn() }
    #expect((95...105).contains(turns.count { $0 == 9 }))
  }

  @Test(
    "D4 a second user who arrives during the turn of a single one gets an equal share from then on")
  func secondUser() {
    var share = FairShare<UInt32, Int>()
    for item in 0..<100 { share.append(item, of: 1) }
    for _ in 0..<50 {
      #expect(share.takeTurn() == 1)
      share.charge(.milliseconds(10), to: 1)
    }
    // In the middle of a turn.
    #expect(share.popFirst()?.item == 50)
    for item in 0..<40 { share.append(item, of: 2) }
    share.charge(.milliseconds(10), to: 1)
    let users = (0..<40).compactMap { _ in
      let user = share.takeTurn()
      if let user { share.charge(.milliseconds(10), to: user) }
      return user
    }
    #expect((19...21).contains(users.count { $0 == 1 }))
    // Nothing was lost.
    var left = 0
    while share.takeTurn() != nil { left += 1 }
    #expect(left == 49 + 40 - 40 && share.isEmpty)
  }

  @Test("D4 other users wait for only one turn of a busy user")
  func waiting() {
    var share = FairShare<UInt32, Int>()
    for number in 1...5 { share.append(number, of: 1000) }
    share.append(10, of: 1)
    share.append(20, of: 1001)
    share.append(11, of: 1)
    #expect(share.takeItem() == 10)
    share.append(30, of: 1002)
    #expect((0..<7).map { _ in share.takeItem() } == [20, 30, 1, 11, 2, 3, 4])
    #expect(share.takeItem() == 5 && share.takeItem() == nil && share.isEmpty)
  }

  @Test("D4 abandoned items are removed, and the others keep their places")
  func removal() {
    var share = FairShare<UInt32, Int>()
    for number in 1...3 { share.append(number, of: 1000) }
    #expect(share.remove { $0 == 2 } == [2])
    share.append(10, of: 1)
    #expect(share.remove { $0 == 3 || $0 == 10 } == [10, 3])
    #expect(share.remove { $0 == 2 }.isEmpty)
    share.append(11, of: 1)
    #expect(share.takeItem() == 11)
    #expect(share.remove { _ in true } == [1] && share.isEmpty)
  }

  @Test(
    "D4 any sequence of additions and turns loses nothing, and keeps each user's order",
    arguments: 0..<4)
  func random(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    var share = FairShare<UInt32, Int>()
    var present: [UInt32: [Int]] = [:]
    for number in 0..<5000 {
      let user = UInt32(random.number(0...3))
      switch random.number(0...9) {
      case 0...4:
        share.append(4 * number + Int(user), of: user)
        present[user, default: []].append(4 * number + Int(user))
      case 9:
        func isChosen(_ item: Int) -> Bool { item % 4 == user && item % 3 == 0 }
        #expect(share.remove(where: isChosen) == present[user, default: []].filter(isChosen))
        present[user]?.removeAll(where: isChosen)
      default:
        guard let turn = share.popFirst() else {
          #expect(present.values.allSatisfy { $0.isEmpty })
          continue
        }
        #expect(turn.item % 4 == turn.user)
        #expect(present[turn.user]?.removeFirst() == turn.item)
        share.charge(.milliseconds(random.number(0...9)), to: turn.user)
      }
    }
  }

  @Test("D4 any number of new users does not delay a waiting user for long")
  func newcomers() {
    var share = FairShare<UInt32, Int>()
    for item in 0..<2 { share.append(item, of: 1) }
    share.append(0, of: 2)
    // This user has had a turn.
    #expect((0..<2).map { _ in share.takeTurn(of: 1) } == [2, 1])
    var turns = 0
    for user: UInt32 in 1000..<5000 {
      share.append(0, of: 2 * user)
      share.append(0, of: 2 * user + 1)
      turns += 1
      if share.takeTurn(of: 1) == 1 { break }
    }
    #expect(turns < 100)
  }

  @Test(
    "D4 any number of users ask again after each answer → a user that asks seldom is next",
    arguments: [1, 2, 8, 25, 100])
  func closedLoops(users: Int) {
    var loops = ClosedLoops(users: users) { _ in .microseconds(300) }
    loops.run(100)
    for round in 0..<200 {
      // The users' questions may all wait, or none.
      if round.isMultiple(of: 10) { loops.askLater = round.isMultiple(of: 20) }
      loops.run(users + round % 41)
      #expect(loops.answersBefore(.microseconds(300)) <= 1)
    }
  }

  @Test(
    "D4 users with turns of different lengths ask again after each answer → equal shares, and a user that asks seldom is next"
  )
  func differentTurns() {
    var loops = ClosedLoops(users: 25) { .microseconds(20 + 40 * $0) }
    loops.run(1000)
    for _ in 0..<100 {
      loops.run(50)
      #expect(loops.answersBefore(.microseconds(200)) <= 1)
    }
    let times = loops.times.values
    #expect((times.max() ?? .zero) - (times.min() ?? .zero) <= .milliseconds(3))
  }

  @Test(
    "D4 a busy user pauses after each answer → it gets no larger share than others",
    arguments: [1, 5, 24, 60, 200])
  func pauses(turns: Int) {
    var loops = ClosedLoops(users: 25) { _ in .microseconds(300) }
    loops.pause = (user: 7, turns)
    loops.run(20_000)
    let others = loops.times.filter { $0.key != 7 }.values
    #expect(loops.times[7] ?? .zero <= (others.min() ?? .zero) + .milliseconds(2))
    // No other user has starved.
    #expect((others.max() ?? .zero) - (others.min() ?? .zero) <= .milliseconds(2))
  }

  @Test("D4 a turn takes long while no other user waits → busy users still have no credit")
  func longTurn() {
    var loops = ClosedLoops(users: 25) { _ in .microseconds(300) }
    loops.run(1000)
    for user in 0..<25 as Range<UInt32> { loops.drop(user) }
    loops.share.append(0, of: 99)
    for _ in 0..<2 {
      #expect(loops.share.takeTurn(of: 10) == 99)
      loops.share.append(0, of: 99)
    }
    for user in 0..<25 as Range<UInt32> { loops.ask(user) }
    #expect(loops.answersBefore(.microseconds(300)) == 0)
  }

  @Test("D4 nothing is kept about users who have gone")
  func forgotten() throws {
    var share = FairShare<UInt32, Int>()
    // One user stays, so that some user always waits, and not in vain.
    var turns = 0
    share.append(0, of: 0)
    for user: UInt32 in 1...10_000 {
      share.append(0, of: user)
      for _ in 0..<2 {
        let user = share.takeTurn()
        share.charge(.milliseconds(1), to: try #require(user))
        if user == 0 {
          turns += 1
          share.append(0, of: 0)
        }
      }
    }
    #expect(turns > 5000)
    let accounts = Mirror(reflecting: share).children.first { $0.label == "accounts" }
    #expect(Mirror(reflecting: try #require(accounts).value).children.count < 100)
    while let user = share.takeTurn() { share.charge(.milliseconds(1), to: user) }
    #expect(share.isEmpty)
  }
}

/// Users that ask again after each answer, beside one that asks seldom.
private struct ClosedLoops {
  var share = FairShare<UInt32, Int>()
  /// The time that each user has used.
  var times: [UInt32: Duration] = [:]
  /// Whether a user asks again only after the next answer.
  var askLater = true
  /// A user that waits for a number of answers to others before it asks again.
  var pause: (user: UInt32, turns: Int)?
  private let cost: (Int) -> Duration
  private var later: [UInt32] = []
  private var pausesUntil: Int?
  private var turn = 0

  init(users: Int, cost: @escaping (Int) -> Duration) {
    self.cost = cost
    for user in 0..<users { self.ask(UInt32(user)) }
  }

  mutating func ask(_ user: UInt32) { self.share.append(0, of: user) }

  /// Drops what a user asks.
  mutating func drop(_ user: UInt32) {
    self.later.removeAll { $0 == user }
    _ = self.share.remove(of: user) { _ in true }
  }

  mutating func run(_ turns: Int) {
    for _ in 0..<turns { _ = self.answer() }
  }

  /// Answers the next query, and returns its user.
  private mutating func answer() -> UInt32? {
    self.turn += 1
    if let pause = self.pause, self.pausesUntil == self.turn { self.ask(pause.user) }
    let next = self.share.popFirst()
    for user in self.later { self.ask(user) }
    self.later = []
    guard let user = next?.user, user != Self.seldom else { return next?.user }
    self.share.charge(self.cost(Int(user)), to: user)
    self.times[user, default: .zero] += self.cost(Int(user))
    if let pause = self.pause, user == pause.user {
      self.pausesUntil = self.turn + pause.turns
    } else if self.askLater {
      self.later.append(user)
    } else {
      self.ask(user)
    }
    return user
  }

  private static let seldom: UInt32 = 1000

  /// Asks as the user that asks seldom. Returns the number of answers before its own.
  mutating func answersBefore(_ cost: Duration) -> Int {
    self.ask(Self.seldom)
    var answers = 0
    while self.answer() != Self.seldom, answers < 1000 { answers += 1 }
    self.share.charge(cost, to: Self.seldom)
    return answers
  }
}

extension FairShare<UInt32, Int> {
  fileprivate mutating func takeTurn() -> UInt32? { self.popFirst()?.user }

  /// The user with the next turn, charged with this many milliseconds.
  fileprivate mutating func takeTurn(of milliseconds: Int) -> UInt32? {
    guard let turn = self.popFirst() else { return nil }
    self.charge(.milliseconds(milliseconds), to: turn.user)
    return turn.user
  }

  /// Takes the next item, charged with a millisecond.
  fileprivate mutating func takeItem() -> Int? {
    guard let turn = self.popFirst() else { return nil }
    self.charge(.milliseconds(1), to: turn.user)
    return turn.item
  }
}
