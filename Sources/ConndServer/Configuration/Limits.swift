/// How much clients may take of connd, so that none can take it from the others.
///
/// The defaults admit a thousand subscribers of one user, each by a connection of its own or all by one. In the memory that
/// the unit allows there is room for one user who takes all of it and means harm: of such a one a connection was seen to
/// take up to 14 kB, a stream 115 and a flow 1.5.
package struct Limits: Hashable, Sendable {
  package var connections = 2048
  package var connectionsPerUser = 1280
  /// Calls at a time: a subscriber is one.
  package var streams = 2048
  package var streamsPerUser = 1280
  package var streamsPerConnection = 1024
  /// Questions to the kernel that wait for their answer: ListLinks, Explain, and the first of WatchPath.
  package var questions = 1024
  package var questionsPerUser = 256
  /// Flows that are guarded.
  package var flows = 32_768
  package var flowsPerUser = 20_480
  package var flowsPerStream = 16_384
  /// The bytes of a request. Requests are addresses and numbers.
  package var messageSize = 16 << 10

  package init() {}
}

extension Limits {
  /// The keys of those that are counted, and where their values are.
  private static let counts: KeyValuePairs<String, any WritableKeyPath<Limits, Int> & Sendable> = [
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

  mutating func read(_ node: ConfigurationNode) throws(ConfigurationError) {
    try node.forEachEntry { entry throws(ConfigurationError) in
      if let count = Self.counts.first(where: { $0.key == entry.name }) {
        self[keyPath: count.value] = try entry.value.number(in: 1...1_000_000)
      } else if entry.name == "messageSize" {
        // Less would refuse what clients have to say.
        self.messageSize = try entry.value.size(in: 1024...1_048_576)
      } else {
        throw entry.unknown(Self.counts.map(\.key) + ["messageSize"])
      }
    }
  }
}
