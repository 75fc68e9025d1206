/// What a connection's own socket said about whether its peer still answers.
public struct SocketTestimony: Hashable, Sendable {
  /// When the socket last heard from its peer, counted from the change of the network that it was
  /// asked about: negative before it. Without a change it is counted from the question.
  public var lastHeard: Duration
  /// The smoothed round-trip time.
  public var roundTrip: Duration
  /// How many retransmission timeouts have passed in a row without an answer.
  public var timeouts: Int
  /// Whether the peer has yet to acknowledge data.
  public var hasUnacknowledgedData: Bool

  public init(
    lastHeard: Duration, roundTrip: Duration, timeouts: Int, hasUnacknowledgedData: Bool
  ) {
    self.lastHeard = lastHeard
    self.roundTrip = roundTrip
    self.timeouts = timeouts
    self.hasUnacknowledgedData = hasUnacknowledgedData
  }
}
