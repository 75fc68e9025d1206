import GRPCCore
import Synchronization

/// A call that a gRPC task handles.
final class Call: RequestSink {
  private let requests: MessageInbox
  private let responses: ResponseWriter
  private let cancellation = Cancellation()
  private let memory: CallMemory

  init(_ stream: ServerStream, _ server: UnixServer, _ peer: PeerCredentials) {
    let reactor = server.reactor
    let memory = CallMemory(of: peer, server.admission)
    self.memory = memory
    self.requests = MessageInbox(maxLength: server.settings.messageSize, hasBegun: true) {
      unread, kept in
      do throws(Refusal) {
        try memory.set(.requests, to: kept)
        reactor.run { stream.consume(unread) }
      } catch {
        let status = Status(code: .resourceExhausted, message: error.message)
        reactor.run { stream.end(status) }
      }
    }
    self.responses = ResponseWriter(stream, reactor, memory)
  }

  typealias Handler =
    @Sendable (
      RPCStream<UnixServerTransport.Inbound, UnixServerTransport.Outbound>, ServerContext
    ) async -> Void

  /// - Parameter ended: Called on the reactor's thread when the task has finished.
  func begin(
    _ method: MethodDescriptor, _ peer: PeerCredentials, on executor: Reactor.Executor,
    _ handler: @escaping Handler, ended: @escaping @Sendable () -> Void
  ) {
    let stream = RPCStream(
      descriptor: method,
      inbound: RPCAsyncSequence(wrapping: InboxParts(inbox: self.requests, part: Self.part)),
      outbound: RPCWriter.Closable(wrapping: self.responses))
    let cancellation = self.cancellation
    Task(executorPreference: executor) {
      await withServerContextRPCCancellationHandle { handle in
        cancellation.add(handle)
        var context = ServerContext(
          descriptor: method, remotePeer: "unix:pid=\(peer.pid)", localPeer: "unix:",
          cancellation: handle)
        context.transportSpecific = peer
        await handler(stream, context)
      }
      executor.reactor.run(ended)
    }
  }

  @Sendable private static func part(_ event: MessageInbox.Event) -> RPCRequestPart<[UInt8]>? {
    switch event {
    case .begin: .metadata([:])
    case .message(let message): .message(message)
    case .end: nil
    }
  }

  func received(_ data: UnsafeRawBufferPointer) throws(MessageReader.Fault) -> Int {
    let unread = try self.requests.append(data)
    try self.memory.keep(self.requests.kept)
    return unread
  }

  func inputEnded() { self.requests.finish() }

  func finish() { self.cancellation.cancel() }

  func close() {
    self.requests.finish(.failure(.streamIsClosed))
    self.responses.close()
    self.memory.close()
    self.cancellation.cancel()
  }
}

/// Writes the response of a call as its task provides it.
private struct ResponseWriter: ClosableRPCWriterProtocol {
  private let outbox: MessageOutbox
  private let stream: ServerStream
  private let reactor: Reactor

  init(_ stream: ServerStream, _ reactor: Reactor, _ memory: CallMemory) {
    self.outbox = MessageOutbox(countedBy: memory) { reactor.run { stream.resume() } }
    self.stream = stream
    self.reactor = reactor
  }

  func write(_ part: RPCResponsePart<[UInt8]>) async throws {
    switch part {
    case .metadata: self.reactor.run { self.stream.respond(from: self.outbox) }
    case .message(let message): try await self.outbox.write(message)
    case .status(let status, _):
      self.outbox.end(status)
      // If the response has not begun, it cannot end with the status.
      self.reactor.run { self.stream.endIfUnanswered(status) }
    }
  }

  func write(contentsOf parts: some Sequence<RPCResponsePart<[UInt8]>>) async throws {
    for part in parts { try await self.write(part) }
  }

  /// Does nothing, because gRPC has already written a status.
  func finish() async {}

  func finish(throwing error: any Error) async {
    let status = (error as? RPCError).map { Status($0) }
    self.reactor.run {
      self.stream.end(status ?? Status(code: .unknown, message: "\(error)"))
    }
  }

  func close() { self.outbox.close() }
}

/// Notifies gRPC of the end of a call, even if its task has not started.
private final class Cancellation: Sendable {
  private struct State {
    var isCancelled = false
    var handle: ServerContext.RPCCancellationHandle?
  }

  private let state = Mutex(State())

  func add(_ handle: ServerContext.RPCCancellationHandle) {
    let isCancelled = self.state.withLock { state in
      state.handle = handle
      return state.isCancelled
    }
    if isCancelled { handle.cancel() }
  }

  func cancel() {
    let handle = self.state.withLock { state in
      state.isCancelled = true
      return state.handle
    }
    handle?.cancel()
  }
}

extension CallMemory {
  /// Counts received bytes.
  fileprivate func keep(_ bytes: Int) throws(MessageReader.Fault) {
    do throws(Refusal) {
      try self.set(.requests, to: bytes)
    } catch {
      throw .refused(error)
    }
  }
}

/// Receives the single request of a call that a source answers.
final class SingleRequest: RequestSink {
  private let stream: ServerStream
  private let peer: PeerCredentials
  private let begin: StreamingMethod
  private var reader: MessageReader
  private var memory: CallMemory?
  private var isTaken = false

  init(
    _ stream: ServerStream, _ peer: PeerCredentials, _ server: UnixServer,
    _ begin: @escaping StreamingMethod
  ) {
    self.stream = stream
    self.peer = peer
    self.begin = begin
    self.reader = MessageReader(maxLength: server.settings.messageSize)
    self.memory = CallMemory(of: peer, server.admission)
  }

  func received(_ data: UnsafeRawBufferPointer) throws(MessageReader.Fault) -> Int {
    guard !self.isTaken else { return 0 }
    try self.reader.append(data)
    guard let request = try self.reader.next() else {
      try self.memory?.keep(self.reader.kept)
      return 0
    }
    self.isTaken = true
    (self.reader, self.memory) = (MessageReader(maxLength: 0), nil)
    do throws(RPCError) {
      self.stream.respond(from: try self.begin(request, self.peer, self.stream))
    } catch {
      self.stream.end(Status(error))
    }
    return 0
  }

  func inputEnded() {
    guard !self.isTaken else { return }
    self.isTaken = true
    self.stream.end(Status(code: .internalError, message: "the call has no request"))
  }

  /// Does nothing, because the source decides when to end.
  func finish() {}
  func close() { self.memory?.close() }
}
