/// The state of a channel, as in gRPC's connectivity-semantics-and-api document.
public enum ConnectivityState: String, Hashable, Sendable, CaseIterable {
  /// There is no connection, and none is being made: nobody needs one.
  case idle
  /// A connection is being made, from name resolution to the server's HTTP/2 SETTINGS.
  case connecting
  /// Calls go out.
  case ready
  /// No connection could be made, it broke, or its network is gone. The next call tries again: when the backoff is over, and at
  /// once where it was the network.
  case transientFailure
  /// There will be none any more.
  case shutdown
}
