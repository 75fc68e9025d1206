import Connectivity
import TestKit
import Testing

@testable import ConndServer

@Suite("Destinations of flows")
struct FlowDestinationsTests {
  /// What was added and removed, and nothing else, decides what is there and in which order.
  @Test(
    "what came and did not go is there, in an order that can be repeated", arguments: [1, 2, 3])
  func comingAndGoing(seed: UInt64) throws {
    var (destinations, again) = (FlowDestinations(), FlowDestinations())
    var expected: [Destination: Set<FlowTable.Key>] = [:]
    var random = SeededGenerator(seed: seed)
    for _ in 0..<500 {
      let last = Int.random(in: 1...12, using: &random)
      let destination = Destination(try #require(IPAddress("198.51.100.\(last)")))
      let key = FlowTable.Key(guardian: 1, id: .random(in: 1...4, using: &random))
      if Bool.random(using: &random) {
        destinations.insert(key, destination)
        again.insert(key, destination)
        expected[destination, default: []].insert(key)
      } else {
        destinations.remove(key, destination)
        again.remove(key, destination)
        expected[destination]?.remove(key)
        if expected[destination]?.isEmpty == true { expected[destination] = nil }
      }
      #expect(destinations.all == again.all)
      #expect(Set(destinations.all) == Set(expected.keys))
      #expect(destinations.all.count == expected.count)
      for (destination, keys) in expected { #expect(destinations[destination] == keys) }
    }
  }
}
