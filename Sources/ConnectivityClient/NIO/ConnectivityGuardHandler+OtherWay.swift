public import Connectivity
internal import ConnectivityMonitor
public import NIOCore

extension ConnectivityGuardHandler {
  /// Returns the other way to an address: another link's default route. Use it for a second
  /// connection while the first makes no progress. Returns `nil` for a Unix socket, or if connd is
  /// not running or is in another network namespace (C7).
  ///
  /// Use the other way only if `OtherWay.isAllowed`. Bind the second channel to the way's link
  /// before you connect. Use the connection that is ready first, and do not send the same request
  /// on both.
  ///
  /// - Parameters:
  ///   - address: The address of the host, as the default way's resolver returned it.
  ///   - config: The networks that the connection may use, and connd's socket.
  ///
  /// Implements rules W5 and W6.
  public static func otherWay(
    to address: SocketAddress, config: Config = .defaults
  ) async -> OtherWay? {
    guard let remote = address.ip else { return nil }
    return await SocketGuard.otherWay(
      to: remote, port: address.ipPort, access: config.access, socket: config.socket)
  }
}
