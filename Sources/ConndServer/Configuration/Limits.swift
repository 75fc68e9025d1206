/// The limits on the resources of clients, so that no client can starve the others.
///
/// The defaults admit a thousand subscribers of one user, on one shared connection or on one each.
/// A test multiplies the limits by the maximum cost of each resource (`WorstCaseTests`), and
/// compares the sum with the unit's `MemoryMax=`.
package struct Limits: Hashable, Sendable {
  package var connections = 2048
  package var connectionsPerUser = 1024
  /// Concurrent calls. Each subscriber has one call.
  package var streams = 2048
  package var streamsPerUser = 1024
  package var streamsPerConnection = 1024
  /// Pending queries to the kernel, such as GetPath, Explain, and the start of WatchPath.
  package var questions = 1024
  package var questionsPerUser = 256
  package var flows = 40_960
  package var flowsPerUser = 20_480
  package var flowsPerStream = 16_384
  /// Bytes of requests that connd has not processed, and of answers that clients have not read.
  package var pendingMemory = 64 << 20
  package var pendingMemoryPerUser = 32 << 20
  /// The maximum size of a request in bytes. Requests only contain addresses and numbers.
  package var messageSize = 16 << 10

  package init() {}
}

extension Limits {
  private typealias Key = any WritableKeyPath<Limits, Int> & Sendable

  /// The keys of numbers.
  private static let counts: KeyValuePairs<String, Key> = [
    "connections": \.connections,
    "connectionsPerUser": \.connectionsPerUser,
    "streams": \.streams,
    "streamsPerUser": \.streamsPerUser,
    "streamsPerConnection": \.streamsPerConnection,
    "questions": \.questions,
    "questionsPerUser": \.questionsPerUser,
    "flows": \.flows,
    "flowsPerUser": \.flowsPerUser,
    "flowsPerStream": \.flowsPerStream,
  ]

  /// The keys of sizes in bytes, with their valid ranges. Smaller values would reject legitimate
  /// requests.
  private static let sizes: KeyValuePairs<String, (key: Key, range: ClosedRange<Int>)> = [
    "pendingMemory": (\.pendingMemory, 65_536...1 << 30),
    "pendingMemoryPerUser": (\.pendingMemoryPerUser, 65_536...1 << 30),
    "messageSize": (\.messageSize, 1024...1_048_576),
  ]

  /// The configuration keys of all limits.
  static let keys = Self.counts.map(\.key) + Self.sizes.map(\.key)

  mutating func read(_ node: ConfigurationNode) throws(ConfigurationError) {
    try node.forEachEntry { entry throws(ConfigurationError) in
      if let count = Self.counts.first(where: { $0.key == entry.name }) {
        self[keyPath: count.value] = try entry.value.number(in: 1...1_000_000)
      } else if let size = Self.sizes.first(where: { $0.key == entry.name })?.value {
        self[keyPath: size.key] = try entry.value.size(in: size.range)
      } else {
        throw entry.unknown(Self.keys)
      }
    }
  }
}
