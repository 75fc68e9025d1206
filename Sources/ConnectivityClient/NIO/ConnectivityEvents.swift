public import Connectivity
internal import ConnectivitySession

/// The inbound user events of a ``ConnectivityGuardHandler``, named as NIO Transport Services names those of Network.framework
/// (`NIOTSNetworkEvents`).
public enum ConnectivityEvents {
  /// Whether packets are sent and received. A connection that is not viable may become so again.
  public struct ViabilityUpdate: Hashable, Sendable {
    public var isViable: Bool

    public init(isViable: Bool) { self.isViable = isViable }
  }

  /// The system prefers another path now: work is better moved to a new connection, and this one closed then.
  public struct BetterPathAvailable: Hashable, Sendable {
    public init() {}
  }

  /// The better path is gone, and this connection's is the one that the system prefers again.
  public struct BetterPathUnavailable: Hashable, Sendable {
    public init() {}
  }

  /// The connection's path: the first, and whenever it has changed.
  public struct PathChanged: Hashable, Sendable {
    public var path: Path

    public init(path: Path) { self.path = path }
  }

  /// connd said that the connection is no longer viable, or may not be. Comes before what the handler does about it.
  public struct Invalidated: Hashable, Sendable {
    public var invalidation: FlowInvalidation

    public init(invalidation: FlowInvalidation) { self.invalidation = invalidation }
  }
}
