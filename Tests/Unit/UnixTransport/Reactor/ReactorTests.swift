import Glibc
import Invariants
import LinuxSupport
import Synchronization
import TestKit
import Testing

@testable import UnixTransport

@Suite("Reactor")
struct ReactorTests {
  /// Runs the body like a program's main function, on its own thread.
  static func run<Success: Sendable>(
    _ body: @escaping @Sendable (Reactor) async throws -> Success
  ) async throws -> Success {
    let reactor = try Reactor()
    return try await withCheckedThrowingContinuation { done in
      startThread {
        done.resume(with: Result { try reactor.runBlocking { try await body(reactor) } })
      }
    }
  }

  @Test("another thread uses what belongs to a running reactor → reported")
  func confined() async throws {
    let reactor = try Reactor()
    let faults = Invariants { _ in }
    @Sendable func use() { Invariants.$observer.withValue(faults) { reactor.checkThread() } }
    // Before it runs, and after its end, any thread may.
    use()
    try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
      startThread {
        let result = Result {
          try reactor.runBlocking {
            use()
            #expect(faults.count == 0)
            await withCheckedContinuation { used in
              startThread {
                use()
                used.resume()
              }
            }
            #expect(faults.count == 1)
          }
        }
        done.resume(with: result)
      }
    }
    use()
    #expect(faults.count == 1)
  }

  @Test("tasks, child tasks and executed jobs run on its thread, in order")
  func order() async throws {
    let threads = try await Self.run { reactor in
      var threads: Set<UInt> = [pthread_self()]
      await withTaskGroup(of: UInt.self) { group in
        for _ in 0..<10 {
          group.addTask {
            await Task.yield(); return pthread_self()
          }
        }
        for await thread in group { threads.insert(thread) }
      }
      let places = Mutex<[Int]>([])
      await withCheckedContinuation { done in
        for place in 0..<100 { reactor.execute { places.withLock { $0.append(place) } } }
        reactor.execute { done.resume() }
      }
      #expect(places.withLock { $0 } == Array(0..<100))
      return threads
    }
    #expect(threads.count == 1)
  }

  @Test("jobs from other threads wake it")
  func waking() async throws {
    let count = try await Self.run { reactor in
      let count = Mutex(0)
      for _ in 0..<1000 {
        await withCheckedContinuation { done in
          startThread {
            reactor.execute {
              count.withLock { $0 += 1 }
              done.resume()
            }
          }
        }
      }
      return count.withLock { $0 }
    }
    #expect(count == 1000)
  }

  @Test(
    "timed jobs run in the order of their times and not earlier, even if all are past",
    arguments: [[600, 200, 400], [-20_000, -60_000, -40_000]])
  func alarms(delays: [Int]) async throws {
    let order = try await Self.run { reactor in
      let order = Mutex<[Int]>([])
      let start = ContinuousClock.now
      await withCheckedContinuation { done in
        reactor.execute {
          for delay in delays {
            reactor.execute(after: .milliseconds(delay)) {
              #expect(start.duration(to: .now) >= .milliseconds(delay))
              order.withLock { $0.append(delay) }
              if delay == delays.max() { done.resume() }
            }
          }
        }
      }
      return order.withLock { $0 }
    }
    #expect(order == delays.sorted())
  }

  @Test("publications and their sending come before waiting jobs")
  func news() async throws {
    let order = try await Self.run { reactor in
      let order = Mutex<[String]>([])
      await withCheckedContinuation { done in
        reactor.execute {
          for _ in 0..<3 { reactor.execute { order.withLock { $0.append("job") } } }
          reactor.execute { done.resume() }
          reactor.executeNext {
            order.withLock { $0.append("news") }
            reactor.execute(inTurnOf: .root) { order.withLock { $0.append("sent") } }
          }
        }
      }
      return order.withLock { $0 }
    }
    #expect(order == ["news", "sent", "job", "job", "job"])
  }

  @Test("D4 a user's task does not wait behind all of another user's")
  func users() async throws {
    let order = try await Self.run { reactor in
      let (many, one) = (
        Reactor.Executor(reactor, of: .root), Reactor.Executor(reactor, of: .unknown)
      )
      return await withTaskGroup(of: Int.self) { group in
        for _ in 0..<100 { group.addTask(executorPreference: many) { 1 } }
        group.addTask(executorPreference: one) { 2 }
        // In the order of their ends.
        return await group.reduce(into: []) { $0.append($1) }
      }
    }
    #expect(order.count == 101)
    #expect(try #require(order.firstIndex(of: 2)) <= 1)
  }

  @Test("the body's error is the run's")
  func failure() async throws {
    await #expect(throws: CancellationError.self) {
      try await Self.run { _ in throw CancellationError() }
    }
  }
}
