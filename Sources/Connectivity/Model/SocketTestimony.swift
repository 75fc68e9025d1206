/// The evidence of a connection's own socket on whether the peer still answers.
public struct SocketTestimony: Hashable, Sendable {
  /// When the socket last heard from its peer, relative to the network change in question; negative
  /// if before it. Without a change, relative to the query.
  public var lastHeard: Duration
  /// The smoothed round-trip time.
  public var roundTrip: Duration
  /// The number of consecutive retransmission timeouts without an answer.
  public var timeouts: Int
  /// Whether the peer has yet to acknowledge data.
  public var hasUnacknowledgedData: Bool

  package init(
    lastHeard: Duration, roundTrip: Duration, timeouts: Int, hasUnacknowledgedData: Bool
  ) {
    self.lastHeard = lastHeard
    self.roundTrip = roundTrip
    self.timeouts = timeouts
    self.hasUnacknowledgedData = hasUnacknowledgedData
  }
}
