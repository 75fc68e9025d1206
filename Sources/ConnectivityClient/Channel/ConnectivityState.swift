/// The state of a channel, as in gRPC's connectivity-semantics-and-api document.
public enum ConnectivityState: String, Hashable, Sendable, CaseIterable {
  /// The channel has no connection and is not making one, because no call needs it.
  case idle
  /// A connection is being made, from name resolution to the server's HTTP/2 SETTINGS.
  case connecting
  /// Calls can start.
  case ready
  /// The connection failed, broke, or lost its network. The next call retries: immediately if the
  /// network was lost, otherwise after the backoff.
  case transientFailure
  /// The channel makes no more connections.
  case shutdown
}
