import LinuxSupport
import Synchronization
import Testing

@testable import ConndServer

@Suite("Turns of accounts", .timeLimit(.minutes(1)))
struct AccountTurnsTests {
  private static let user = Account(ofUID: 1000)
  private static let other = Account(ofUID: 1001)

  /// Calls wait here until it opens.
  private final class Gate: Sendable {
    private struct State {
      var isOpen = false
      var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func wait() async {
      await withCheckedContinuation { continuation in
        let isOpen = self.state.withLock { state in
          if !state.isOpen { state.waiting.append(continuation) }
          return state.isOpen
        }
        if isOpen { continuation.resume() }
      }
    }

    func open() {
      let waiting = self.state.withLock { state in
        state.isOpen = true
        defer { state.waiting = [] }
        return state.waiting
      }
      for continuation in waiting { continuation.resume() }
    }
  }

  private final class Observer: Sendable {
    struct Seen {
      var begun: [Int] = []
      var running = 0
      var mostRunning = 0
    }

    let seen = Mutex(Seen())

    func begin(_ number: Int) {
      self.seen.withLock { seen in
        seen.begun.append(number)
        seen.running += 1
        seen.mostRunning = max(seen.mostRunning, seen.running)
      }
    }

    func end() { self.seen.withLock { $0.running -= 1 } }
  }

  @Test(
    "D4 a user makes fifty calls → as many run at a time as may; another user's call runs at once",
    arguments: [1, 2])
  func order(maxRunning: Int) async throws {
    let turns = AccountTurns(maxRunning: maxRunning)
    let gate = Gate()
    let observer = Observer()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<50 {
        group.addTask {
          try await turns.run(for: Self.user) { _ in
            observer.begin(number)
            await gate.wait()
            await Task.yield()
            observer.end()
          }
        }
        while turns.count <= number { await Task.yield() }
      }
      #expect(try await turns.run(for: Self.other) { _ in true })
      gate.open()
      try await group.waitForAll()
    }
    let result = observer.seen.withLock { $0 }
    #expect(result.mostRunning == maxRunning)
    // Calls that run at the same time may begin in any order.
    #expect((maxRunning > 1 ? result.begun.sorted() : result.begun) == Array(0..<50))
    #expect(turns.count == 0)
  }

  @Test(
    "D4 the client of a waiting call leaves → the call never runs, and the next one is not delayed")
  func cancelled() async throws {
    let turns = AccountTurns(maxRunning: 1)
    let gate = Gate()
    let turn = AccountTurns.Turn()
    async let first: Void = turns.run(for: Self.user) { _ in await gate.wait() }
    while turns.count < 1 { await Task.yield() }
    let second = Task { try await turns.run(for: Self.user, turn) { _ in true } }
    while turns.count < 2 { await Task.yield() }
    async let third: Bool = turns.run(for: Self.user) { _ in true }
    while turns.count < 3 { await Task.yield() }
    turns.cancel(turn, Self.user)
    await #expect(throws: CancellationError.self) { _ = try await second.value }
    #expect(turns.count == 2)
    gate.open()
    try await first
    #expect(try await third)
    #expect(turns.count == 0)
    // A client that left before its call began does not run it either.
    await #expect(throws: CancellationError.self) {
      try await turns.run(for: Self.user, turn) { _ in Issue.record("it runs") }
    }
    #expect(turns.count == 0)
  }

  @Test("a call fails → its turn passes to the next one")
  func failure() async throws {
    struct Failed: Error {}
    let turns = AccountTurns(maxRunning: 1)
    for _ in 0..<3 {
      await #expect(throws: Failed.self) {
        try await turns.run(for: Self.user) { _ in throw Failed() }
      }
    }
    #expect(turns.count == 0)
  }
}
