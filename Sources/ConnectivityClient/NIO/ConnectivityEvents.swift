public import Connectivity
internal import ConnectivityMonitor

/// The inbound user events of a ``ConnectivityGuardHandler``. Their names follow those of NIO
/// Transport Services for Network.framework (`NIOTSNetworkEvents`).
///
/// Implements rule C10.
public enum ConnectivityEvents {
  /// Whether packets can be sent and received. A connection that is not viable may become viable
  /// again.
  public struct ViabilityUpdate: Hashable, Sendable {
    public var isViable: Bool

    public init(isViable: Bool) { self.isViable = isViable }
  }

  /// The kernel now prefers another path. Move work to a new connection, and then close this one.
  public struct BetterPathAvailable: Hashable, Sendable {
    public init() {}
  }

  /// The better path is gone. The kernel prefers this connection's path again.
  public struct BetterPathUnavailable: Hashable, Sendable {
    public init() {}
  }

  /// The connection's path. Fired for the first path and after each change.
  public struct PathChanged: Hashable, Sendable {
    public var path: KernelPath

    public init(path: KernelPath) { self.path = path }
  }

  /// connd reported that the connection is dead or in doubt. Fired before the handler acts on the
  /// report.
  public struct Invalidated: Hashable, Sendable {
    public var invalidation: FlowInvalidation

    public init(invalidation: FlowInvalidation) { self.invalidation = invalidation }
  }

  /// The connection is not guarded, for this reason (C7, I11). If connd is not running, guarding
  /// may begin later. Fired once the connection is made.
  public struct Unguarded: Hashable, Sendable {
    public var reason: String

    public init(reason: String) { self.reason = reason }
  }
}
