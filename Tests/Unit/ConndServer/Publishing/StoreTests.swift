import Connectivity
import ConnectivityRules
import Synchronization
import Testing

@testable import ConndServer

@Suite("Store")
struct StoreTests {
  /// Changes with growing generations, made by the transition maker itself.
  static func changes(_ count: Int) -> [Published] {
    var maker = TransitionDetector()
    return (0..<count).compactMap { self.change($0, of: &maker) }
  }

  /// The default path appears, disappears and reappears.
  private static func change(
    _ number: Int, of maker: inout TransitionDetector
  ) -> Published? {
    let path =
      number.isMultiple(of: 2)
      ? KernelPath(
        status: .satisfied, chain: [KernelPath.Link(index: 2, name: "eth0")], medium: .wired)
      : .unsatisfied(.noRoute)
    let change = maker.update(
      to: Observation(ipv4: CandidatePath(path), ipv6: CandidatePath(.unsatisfied(.noRoute))),
      on: .start, time: WallTime(microseconds: Int64(number)))
    return change.map { Published($0) }
  }

  static func generations(_ reading: Store.Reading?) -> [UInt64] {
    switch reading {
    case .snapshot(let snapshot), .gap(let snapshot): [snapshot.generation]
    case .changes(let changes): changes.map(\.change.generation)
    case .finished, nil: []
    }
  }

  @Test("D5 a subscriber gets a snapshot first, then every change in order")
  func order() throws {
    let changes = Self.changes(5)
    let store = Store()
    store.publish([changes[0]])
    var subscriber = store.admit(since: nil)
    guard case .snapshot(let snapshot) = store.next(for: &subscriber) else {
      Issue.record("no snapshot")
      return
    }
    #expect(snapshot == changes[0].change.snapshot)
    for change in changes[1...] { store.publish([change]) }
    var seen: [UInt64] = []
    while seen.last != 5 { seen += Self.generations(store.next(for: &subscriber)) }
    #expect(seen == [2, 3, 4, 5])
  }

  @Test("D5 a subscriber resumes without a gap if the history reaches back far enough")
  func resume() throws {
    let store = Store(Self.changes(10))
    var subscriber = store.admit(since: 7)
    guard case .changes(let changes) = store.next(for: &subscriber) else {
      Issue.record("no changes")
      return
    }
    #expect(changes.map(\.change.generation) == [8, 9, 10])
  }

  @Test("D5 a killed run may have published more → all its subscribers get a gap")
  func leftOut() throws {
    let changes = Self.changes(80)
    let store = Store(Array(changes.prefix(10)), after: 74)
    var (complete, ahead) = (store.admit(since: 10), store.admit(since: 11))
    #expect(Self.generations(store.next(for: &complete)) == [74])
    #expect(store.next(for: &complete) == nil)
    #expect(Self.generations(store.next(for: &ahead)) == [74])
    store.publish(Array(changes[74...]))
    #expect(Self.generations(store.next(for: &complete)) == [75, 76, 77, 78, 79, 80])
    #expect(Self.generations(store.next(for: &ahead)) == [75, 76, 77, 78, 79, 80])
    for since: UInt64 in [9, 10, 12] {
      var late = store.admit(since: since)
      guard case .gap = store.next(for: &late) else {
        Issue.record("no gap after generation \(since)")
        return
      }
    }
    var middle = store.admit(since: 76)
    #expect(Self.generations(store.next(for: &middle)) == [77, 78, 79, 80])
  }

  @Test("D5 the history does not reach back, or the generation is foreign → a gap")
  func gap() throws {
    let store = Store(Array(Self.changes(10).suffix(3)))
    for since: UInt64 in [0, 6, 11, .max] {
      var subscriber = store.admit(since: since)
      let reading = store.next(for: &subscriber)
      if case .gap(let snapshot) = reading {
        #expect(since != 6 || snapshot.generation == 10)
      } else {
        // The change after 6 would be 7, which is not stored.
        Issue.record("since \(since): \(String(describing: reading))")
      }
    }
    var reaching = store.admit(since: 7)
    #expect(Self.generations(store.next(for: &reaching)) == [8, 9, 10])
  }

  @Test("D5 the past is lost → earlier subscribers get a gap, whatever was published since")
  func lostPast() throws {
    let store = Store(after: 1000)
    var maker = TransitionDetector(restored: store.snapshot)
    for number in 0..<10 { store.publish(Self.change(number, of: &maker).map { [$0] } ?? []) }
    #expect(store.snapshot.generation == 1010)
    for since: UInt64 in [0, 3, 999] {
      var subscriber = store.admit(since: since)
      guard case .gap = store.next(for: &subscriber) else {
        Issue.record("since \(since): no gap")
        continue
      }
    }
    var reaching = store.admit(since: 1007)
    #expect(Self.generations(store.next(for: &reaching)) == [1008, 1009, 1010])
  }

  @Test("D4 a slow subscriber learns that it missed changes, and delays no other")
  func slow() throws {
    let changes = Self.changes(Store.capacity + 10)
    let store = Store()
    store.publish([changes[0]])
    var slow = store.admit(since: nil)
    var quick = store.admit(since: nil)
    _ = store.next(for: &slow)
    _ = store.next(for: &quick)
    var seen: [UInt64] = []
    for change in changes[1...] {
      store.publish([change])
      seen += Self.generations(store.next(for: &quick))
    }
    #expect(seen == changes[1...].map(\.change.generation))
    guard case .gap(let snapshot) = store.next(for: &slow) else {
      Issue.record("no gap")
      return
    }
    #expect(snapshot == changes.last?.change.snapshot)
  }

  @Test(
    "the news callback is called for a change and for the end, but only if there is a subscriber"
  )
  func news() throws {
    let changes = Self.changes(2)
    let store = Store()
    let calls = Mutex(0)
    store.onNews { calls.withLock { $0 += 1 } }
    store.publish([changes[0]])
    #expect(calls.withLock { $0 } == 0)
    var subscriber = store.admit(since: 1)
    #expect(Self.generations(store.next(for: &subscriber)).isEmpty)
    store.publish([changes[1]])
    #expect(calls.withLock { $0 } == 1)
    #expect(Self.generations(store.next(for: &subscriber)) == [2])
    store.finish()
    #expect(calls.withLock { $0 } == 2)
    guard case .finished = store.next(for: &subscriber) else {
      Issue.record("not finished")
      return
    }
    store.leave(subscriber)
    store.leave(subscriber)
    #expect(store.subscribers == 0)
  }
}
