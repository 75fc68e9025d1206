import Connectivity
import Invariants
import Logging
import Testing

@testable import ConndServer

@Suite("The feed of changes")
struct ChangeFeedTests {
  private struct StorePublisher: Publisher {
    let store: Store
    func publish(_ changes: [ConnectivityChange]) {
      self.store.publish(changes.map { Published($0) })
    }
  }

  @Test("a change repeats an earlier generation → reported, and published")
  func generations() {
    let changes = StoreTests.changes(3).map(\.change)
    let store = Store()
    var feed = ChangeFeed(
      store, StorePublisher(store: store), Statistics(),
      Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    let faults = Invariants { _ in }
    Invariants.$observer.withValue(faults) {
      feed.publish([changes[0], changes[1]], store.snapshot.status)
      #expect(faults.count == 0)
      feed.publish([changes[1], changes[2]], store.snapshot.status)
    }
    #expect(faults.count == 1 && store.snapshot.generation == 3)
  }
}
