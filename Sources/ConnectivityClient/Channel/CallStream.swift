internal import Connectivity
internal import ConnectivityMonitor
public import GRPCCore
internal import GRPCNIOTransportHTTP2Posix

/// Additions to one call's gRPC stream: an error that explains why the network ended the call, a
/// header, size limits, and a log.
///
/// Implements rule C2.
final class CallStream: Sendable {
  private let connection: Connection
  private let sizes: ResponseSizes?
  private let log: CallLog?

  init(on connection: Connection, sizes: ResponseSizes?, log: CallLog?) {
    self.connection = connection
    self.sizes = sizes
    self.log = log
  }

  typealias Inbound = NetworkAwareTransport.Inbound
  typealias Outbound = NetworkAwareTransport.Outbound

  func wrap(_ stream: RPCStream<Inbound, Outbound>) -> RPCStream<Inbound, Outbound> {
    let marks = self.log?.hasHeader == true || self.sizes != nil
    return RPCStream(
      descriptor: stream.descriptor,
      inbound: RPCAsyncSequence(wrapping: Parts(base: stream.inbound, call: self)),
      outbound: marks
        ? RPCWriter.Closable(wrapping: Writer(base: stream.outbound, call: self))
        : stream.outbound)
  }

  // MARK: Parts

  fileprivate func mark(_ metadata: inout Metadata) {
    self.log?.addHeader(to: &metadata)
    self.sizes?.mark(&metadata)
  }

  /// Returns the part of the response to pass to the caller.
  fileprivate func received(
    _ part: RPCResponsePart<GRPCNIOTransportBytes>?
  ) throws(RPCError) -> RPCResponsePart<GRPCNIOTransportBytes>? {
    switch part {
    case .message(let bytes):
      try self.sizes?.check(bytes.count)
      return part
    case .status(let received, let metadata):
      let status = received.corrected
      // If the connection was destroyed, gRPC knows only that the stream was closed.
      if status.code == .unavailable, let error = self.connection.invalidationError { throw error }
      self.log?.ended(status)
      return .status(status, metadata)
    case .metadata, nil:
      return part
    }
  }

  fileprivate func failed(_ error: any Error) -> any Error {
    var error = error
    if let rpc = error as? RPCError, rpc.code == .unavailable {
      error = self.connection.invalidationError ?? rpc
    }
    self.log?.ended(throwing: error)
    return error
  }
}

/// The parts of a response.
private struct Parts: AsyncSequence, Sendable {
  typealias Element = RPCResponsePart<GRPCNIOTransportBytes>

  let base: NetworkAwareTransport.Inbound
  let call: CallStream

  func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: self.base.makeAsyncIterator(), call: self.call)
  }

  struct AsyncIterator: AsyncIteratorProtocol {
    var base: NetworkAwareTransport.Inbound.AsyncIterator
    let call: CallStream

    mutating func next() async throws -> Element? { try await self.next(isolation: nil) }

    mutating func next(isolation: isolated (any Actor)?) async throws -> Element? {
      do {
        return try self.call.received(try await self.base.next(isolation: isolation))
      } catch {
        let error = self.call.failed(error)
        // If a call has one response, gRPC reports any error other than its own as UNKNOWN.
        guard error is CancellationError else { throw error }
        throw RPCError(code: .cancelled, message: "The call was cancelled.", cause: error)
      }
    }
  }
}

/// Marks the request's metadata, and passes everything else on.
private struct Writer: ClosableRPCWriterProtocol {
  typealias Element = RPCRequestPart<GRPCNIOTransportBytes>

  let base: NetworkAwareTransport.Outbound
  let call: CallStream

  func write(_ element: Element) async throws {
    try await self.base.write(self.marked(element))
  }

  func write(contentsOf elements: some Sequence<Element>) async throws {
    try await self.base.write(contentsOf: elements.map(self.marked))
  }

  func finish() async { await self.base.finish() }

  func finish(throwing error: any Error) async { await self.base.finish(throwing: error) }

  private func marked(_ element: Element) -> Element {
    guard case .metadata(var metadata) = element else { return element }
    self.call.mark(&metadata)
    return .metadata(metadata)
  }
}

extension Connection {
  /// The error for calls of a destroyed connection, or `nil` if no reason is known.
  fileprivate var invalidationError: RPCError? { self.invalidation.map { RPCError($0) } }
}

extension InvalidationError: RPCErrorConvertible {
  public var rpcErrorCode: RPCError.Code { .unavailable }
  public var rpcErrorCause: (any Error)? { self }
  public var rpcErrorMessage: String {
    var cause = self.cause
    cause.message = nil
    return "connd invalidated the connection: \(self.reason.text) (\(cause))."
  }
}
