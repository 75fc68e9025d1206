package import GRPCCore

/// Begins the response to a request: a source of its messages, which may be waiting for something to resume the stream.
///
/// It is called on the reactor's thread, as is the source: such a call costs no task.
package typealias StreamingMethod =
  @Sendable (_ request: [UInt8], _ peer: PeerCredentials, _ stream: ServerStream) throws(RPCError)
  -> any MessageSource

/// gRPC's server over a Unix socket: HTTP/2 by nghttp2, on the thread of a ``Reactor``.
///
/// grpc-swift's own transport gives each connection a pipeline of handlers and each call a child of it and a task, some
/// fifty kilobytes for a subscriber. Here a subscriber is its socket, its HTTP/2 session and a place in the history.
///
/// - No metadata is passed on, in neither direction, and no deadline: clients keep theirs (gRPC's PROTOCOL-HTTP2.md), and
///   end the call.
/// - `ServerContext.peer` is who calls.
/// - Requests are taken as they are read: a client that sends more waits.
package struct UnixServerTransport: ServerTransport {
  package typealias Bytes = [UInt8]

  package struct Settings: Sendable {
    /// How many streams a connection may have open.
    package var streamsPerConnection: Int
    /// How many bytes a request may have.
    package var messageSize: Int

    package init(streamsPerConnection: Int, messageSize: Int) {
      self.streamsPerConnection = streamsPerConnection
      self.messageSize = messageSize
    }
  }

  private let server: UnixServer

  /// - Parameters:
  ///   - descriptor: a listening socket, which the transport closes.
  ///   - methods: those that are not gRPC's to handle, by their full names (`connectivity.v1.Connectivity/Watch`).
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
      server.reactor.run { server.close() }
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
}
