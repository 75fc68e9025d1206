import Invariants
import Synchronization
import Testing

@Suite("Invariants")
struct InvariantsTests {
  @Test("a broken invariant → counted and reported with its place, and the program goes on")
  func broken() {
    let faults = Mutex<[Invariants.Fault]>([])
    let invariants = Invariants { fault in faults.withLock { $0.append(fault) } }
    Invariants.$observer.withValue(invariants) {
      for number in 0..<3 { invariant(number != 1, "one is not two") }
    }
    #expect(invariants.count == 1)
    let fault = faults.withLock { $0.first }
    #expect(fault?.message == "one is not two")
    #expect(fault?.place.hasPrefix("InvariantsTests/InvariantsTests.swift:") == true)
  }

  @Test("an invariant that breaks again and again → each is counted, and few are due for the log")
  func often() {
    let due = Mutex<[UInt64]>([])
    let invariants = Invariants { fault in
      if fault.isDue { due.withLock { $0.append(fault.count) } }
    }
    for _ in 0..<100 { invariants.record("often", "File.swift", 7) }
    invariants.record("elsewhere", "File.swift", 8)
    #expect(invariants.count == 101)
    #expect(due.withLock { $0 } == [1, 2, 4, 8, 16, 32, 64, 1])
  }

  @Test("another receiver → it gets what is broken from then on")
  func receiver() {
    let first = Mutex(0)
    let second = Mutex(0)
    let invariants = Invariants { _ in first.withLock { $0 += 1 } }
    invariants.record("once", "File.swift", 7)
    invariants.report(to: { _ in second.withLock { $0 += 1 } })
    invariants.record("twice", "File.swift", 7)
    #expect(first.withLock { $0 } == 1 && second.withLock { $0 } == 1)
  }
}
