/// The state of a channel, as in gRPC's connectivity-semantics-and-api document.
@nonexhaustive public enum ConnectivityState: String, Hashable, Sendable, CaseIterable {
  /// The channel has no connection and is not making one, because no call needs it.
  ///
  /// A channel also becomes idle if its connection closes or breaks while no call uses it. The
  /// document reserves ``transientFailure`` for failures "while expecting successful
  /// communication", and gRPC's own pick-first policy also goes from ready to idle.
  case idle
  /// A connection is being made, from name resolution to the server's HTTP/2 SETTINGS.
  case connecting
  /// Calls can start.
  case ready
  /// The connection failed, broke while calls used it, or lost its network. The next call retries:
  /// immediately if the network was lost, otherwise after the backoff.
  case transientFailure
  /// The channel makes no more connections.
  case shutdown
}
