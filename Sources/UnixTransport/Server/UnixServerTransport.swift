package import GRPCCore

/// Starts the response to a request. Returns a source of its messages, which resumes the stream
/// when it has more.
///
/// This function and the source are called on the reactor's thread, so that such a call needs no
/// task.
package typealias StreamingMethod =
  @Sendable (_ request: [UInt8], _ peer: PeerCredentials, _ stream: ServerStream) throws(RPCError)
  -> any MessageSource

/// gRPC's server over a Unix socket: HTTP/2 with nghttp2, on the thread of a ``Reactor``.
///
/// grpc-swift's own transport gives each connection a pipeline of handlers, and each call a child
/// pipeline and a task. That is about 50 KB per subscriber. Here a subscriber costs only its
/// socket, its HTTP/2 session and a place in the history.
///
/// - It passes on no metadata in either direction, and no deadlines. Clients enforce theirs (gRPC's
///   PROTOCOL-HTTP2.md) and end the call.
/// - `ServerContext.peer` has the caller's credentials.
/// - Requests are accepted as fast as they are read, so a client that sends faster waits.
package struct UnixServerTransport: ServerTransport {
  package typealias Bytes = [UInt8]

  package struct Settings: Sendable {
    /// The maximum number of open streams per connection.
    package var streamsPerConnection: Int
    /// The maximum size of a request in bytes.
    package var messageSize: Int

    package init(streamsPerConnection: Int, messageSize: Int) {
      self.streamsPerConnection = streamsPerConnection
      self.messageSize = messageSize
    }
  }

  private let server: UnixServer

  /// - Parameters:
  ///   - descriptor: A listening socket, which the transport closes.
  ///   - methods: The methods that bypass gRPC's handlers, by their full names
  ///     (`connectivity.v1.Connectivity/Watch`).
  package init(
    listeningOn descriptor: CInt, streaming methods: [String: StreamingMethod],
    settings: Settings, admission: any Admission, on reactor: Reactor
  ) {
    self.server = UnixServer(listeningOn: descriptor, methods, settings, admission, reactor)
  }

  package func listen(
    streamHandler:
      @escaping @Sendable (
        _ stream: RPCStream<Inbound, Outbound>, _ context: ServerContext
      ) async -> Void
  ) async throws {
    let server = self.server
    await withTaskCancellationHandler {
      await withCheckedContinuation { ended in
        server.reactor.run { server.begin(streamHandler, ended: ended) }
      }
    } onCancel: {
      server.reactor.run {
        server.close(Status(code: .unavailable, message: "the server has been cancelled"))
      }
    }
  }

  /// Returns when connections are accepted.
  package func listening() async {
    let server = self.server
    await withCheckedContinuation { listening in
      server.reactor.run { server.whenListening(listening) }
    }
  }

  package func beginGracefulShutdown() {
    let server = self.server
    server.reactor.run { server.finish() }
  }

  /// Ends all connections, and unfinished calls with a status.
  package func close(_ status: Status) {
    let server = self.server
    server.reactor.run { server.close(status) }
  }
}
