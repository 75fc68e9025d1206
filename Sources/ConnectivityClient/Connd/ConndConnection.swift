public import ConnectivityProtocol
public import ConnectivitySession
private import GRPCCore
public import GRPCNIOTransportHTTP2Posix

/// The generated client, on a connection to connd.
public typealias ConndClient = Connectivity_V1_Connectivity.Client<HTTP2ClientTransport.Posix>

/// Runs `body` with a client of connd, and then closes the connection.
///
/// ```swift
/// let status = try await withConnd { connd in
///   try await connd.getStatus(Connectivity_V1_GetStatusRequest())
/// }
/// ```
///
/// The client may be used from any task while `body` runs. All connections of a process share one
/// thread.
///
/// - Parameters:
///   - socket: The path of connd's socket.
///   - body: Uses the client. Calls still running when it returns are cancelled.
/// - Returns: The result of `body`.
/// - Throws: ``ConndError`` if connd is not running, refuses this user or fails a call;
///   `CancellationError`; other errors of `body` unchanged.
public func withConnd<Result: Sendable>(
  at socket: String = SocketPath.default, _ body: (ConndClient) async throws -> Result
) async throws -> Result {
  do {
    return try await withNIOConnection(to: socket, body)
  } catch {
    throw await NIODialler().reading(error, of: socket)
  }
}

/// Runs the body with a client over NIO, on a separate connection. Throws gRPC's errors, except if
/// connd is not running or refuses this user.
func withNIOConnection<Result: Sendable>(
  to socket: String, _ body: (ConndClient) async throws -> Result
) async throws -> Result {
  try SocketProbe.connect(to: socket)
  return try await withClient(over: try conndTransport(to: socket), body)
}

/// Returns a transport that connects to connd when it runs.
func conndTransport(to socket: String) throws -> HTTP2ClientTransport.Posix {
  try HTTP2ClientTransport.Posix(
    target: .unixDomainSocket(path: socket, authority: "localhost"),
    transportSecurity: .plaintext,
    config: .defaults { config in
      // connd is on this machine: it is soon back, and retrying costs little.
      config.backoff = .init(
        initial: .milliseconds(100), max: .seconds(2), multiplier: 1.6, jitter: 0.2)
      config.connection.flushCoalescing = nil
    },
    eventLoopGroup: ClientThread.eventLoop)
}
