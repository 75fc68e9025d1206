import Connectivity
import ConnectivityJSON
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("connctl history")
struct HistoryTests {
  @Test("history --limit counts changes, each with its invalidations")
  func historyLimit() throws {
    var response = Connectivity_V1_ListTransitionsResponse()
    // At second 1 a transition with an invalidation, at 2 an invalidation alone, at 3 two of them.
    var transition = ConnectivityChange.Transition.sample
    transition.time = .sample.adding(seconds: 1)
    transition.snapshot.generation = 1
    response.transitions = [Connectivity_V1_Transition(transition)]
    response.invalidations = [(2, 1), (3, 2), (4, 3), (5, 3)].map { generation, seconds in
      var invalidation = Invalidation.sample
      invalidation.generation = UInt64(generation)
      invalidation.time = .sample.adding(seconds: Int64(seconds))
      return Connectivity_V1_Invalidation(invalidation)
    }
    let changes = FoldedChange.groups(try response.changes())
    #expect(changes.map(\.count) == [2, 1, 2])
    guard case .transition = changes[0][0] else {
      Issue.record("the transition stands before its invalidation")
      return
    }
  }

  @Test("two transitions at the same time are two changes")
  func twins() throws {
    var response = Connectivity_V1_ListTransitionsResponse()
    response.transitions = [ConnectivityChange.Transition.sample, .bounce].map {
      Connectivity_V1_Transition($0)
    }
    #expect(FoldedChange.groups(try response.changes()).map(\.count) == [1, 1])
  }

  @Test("history keeps the order of publication")
  func historyOrder() throws {
    var response = Connectivity_V1_ListTransitionsResponse()
    response.transitions = ([3, 7] as [UInt64]).map { generation in
      var transition = ConnectivityChange.Transition.sample
      transition.snapshot.generation = generation
      return Connectivity_V1_Transition(transition)
    }
    response.invalidations = ([2, 4, 5, 8] as [UInt64]).map { generation in
      var invalidation = Invalidation.sample
      invalidation.generation = generation
      return Connectivity_V1_Invalidation(invalidation)
    }
    #expect(try response.changes().map(\.generation) == [2, 3, 4, 5, 7, 8])
  }

  @Test("history shows overrides with their users, and their effect on the path")
  func overrides() throws {
    var response = Connectivity_V1_ListTransitionsResponse()
    let said: [(UInt64, UInt32, Bool)] = [(1, 0, true), (2, 4_000_001, false)]
    response.paths = said.map { generation, user, isOn in
      var change = ConnectivityChange.PathChange.sample
      change.snapshot.generation = generation
      change.snapshot.status.ipv4.constraint = isOn ? .constrained : .unconstrained
      change.snapshot.status.ipv6.constraint = isOn ? .constrained : .unconstrained
      change.cause = ChangeCause(
        .user, "constrainedSet", message: "uid \(user)", interface: "wlan0")
      return Connectivity_V1_PathChange(change)
    }
    let changes = FoldedChange.groups(try response.changes())
    let lines = changes.flatMap { Style.plain(width: 200).history($0) }
    #expect(lines.count == 2)
    #expect(lines.first?.hasSuffix("cost              constrained on wlan0, by root") == true)
    #expect(lines.last?.hasSuffix("not constrained on wlan0, by uid 4000001") == true)
    let json = JSON.history(try #require(changes.last?.last)).description
    #expect(json.hasPrefix(#"{"event": "path", "generation": 2, "time": "2026-"#))
    #expect(json.contains(#""message": "uid 4000001""#))
  }
}
