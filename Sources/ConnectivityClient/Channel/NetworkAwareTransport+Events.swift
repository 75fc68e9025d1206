public import Connectivity
internal import ConnectivityMonitor

extension NetworkAwareTransport {
  /// An event of the connection that the channel uses, as SwiftNIO connections receive them
  /// (``ConnectivityEvents``).
  @nonexhaustive public enum Event: Hashable, Sendable {
    /// The connection's path. Sent after each change, and for a new connection if its path differs
    /// from that of the previous one.
    case path(KernelPath)
    /// Whether packets can be sent and received. A connection that is not viable may become viable
    /// again, or a new one replaces it.
    case viability(Bool)
    /// Whether the kernel now prefers another path. By default new calls then use a new connection,
    /// and calls in progress end a second later with UNAVAILABLE, unless the better path is gone by
    /// then or the connection's socket shows that it is alive (I3).
    case betterPath(Bool)
    /// The connection is dead or in doubt. The channel reacts as ``Config/onInvalidation`` says.
    case invalidated(FlowInvalidation)
    /// The connection is not guarded, for this reason (C7, I11). If connd is not running, guarding
    /// may begin later.
    case unguarded(String)
  }

  /// The events of the channel's connections, in order. Ends when the channel is shut down.
  ///
  /// Use each sequence in one task. A slow reader receives only the last 64 events. The current
  /// path comes first, if it is known.
  public var events: AsyncStream<Event> { self.channel.events() }
}
