internal import Connectivity
internal import ConnectivityRules
private import ConnectivityProtobuf
internal import ConnectivityProtocol
internal import GRPCCore

/// The service `connectivity.v1.Connectivity` on top of the simulation.
struct ConndService: RegistrableRPCService {
  let connd: SimulatedConnd

  func registerMethods(with router: inout RPCRouter<some ServerTransport>) {
    typealias Method = Connectivity_V1_Connectivity.Method
    router.unary(Method.GetStatus.self, self.getStatus)
    router.serverStreaming(Method.Watch.self, self.watch)
    router.unary(Method.GetPath.self, self.getPath)
    router.unary(Method.ReportAttempt.self, self.reportAttempt)
    router.serverStreaming(Method.WatchPath.self, self.watchPath)
    router.bidirectional(Method.Guard.self, self.guard)
  }

  func getStatus(
    request: Connectivity_V1_GetStatusRequest, context: ServerContext
  ) async throws -> Connectivity_V1_Status {
    try self.connd.requireRunning()
    return Connectivity_V1_Status(self.connd.read { $0.snapshot })
  }

  func watch(
    request: Connectivity_V1_WatchRequest, response: RPCWriter<Connectivity_V1_WatchResponse>,
    context: ServerContext
  ) async throws {
    let kinds = try ChangeKinds(request.events)
    let since = request.hasSinceGeneration ? request.sinceGeneration : nil
    guard let stream = self.connd.subscribe(since: since, kinds) else { throw RPCError.stopping }
    try await self.write(stream, to: response) { $0 }
  }

  func getPath(
    request: Connectivity_V1_GetPathRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetPathResponse {
    try self.connd.requireRunning()
    let destination = try IPAddress(request.destination, "destination")
    var response = Connectivity_V1_GetPathResponse()
    response.destination = request.destination
    response.path = Connectivity_V1_Path(self.connd.read { $0.path(to: destination) })
    response.networkNamespace = ProcessNamespace.reported
    return response
  }

  /// Ignores the report, because simulated networks never limp.
  func reportAttempt(
    request: Connectivity_V1_ReportAttemptRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ReportAttemptResponse {
    try self.connd.requireRunning()
    return Connectivity_V1_ReportAttemptResponse()
  }

  func watchPath(
    request: Connectivity_V1_WatchPathRequest,
    response: RPCWriter<Connectivity_V1_WatchPathResponse>, context: ServerContext
  ) async throws {
    let destination = try IPAddress(request.destination, "destination")
    guard let stream = self.connd.watch(destination) else { throw RPCError.stopping }
    try await self.write(stream, to: response) { path in
      var message = Connectivity_V1_WatchPathResponse()
      message.destination = request.destination
      message.path = Connectivity_V1_Path(path)
      message.generation = self.connd.read { $0.snapshot.generation }
      return message
    }
  }

  func `guard`(
    request: RPCAsyncSequence<Connectivity_V1_GuardRequest, any Error>,
    response: RPCWriter<Connectivity_V1_GuardResponse>, context: ServerContext
  ) async throws {
    guard let stream = self.connd.admitMailbox() else { throw RPCError.stopping }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        // After half-closing, a client still receives events.
        for try await request in request { self.take(request, stream.number) }
      }
      group.addTask {
        try await self.write(stream, to: response) { $0 }
        throw CancellationError()
      }
      // The first task that fails ends the other.
      while try await group.next() != nil {}
    }
  }

  /// Writes until connd stops or the client disconnects.
  private func write<Message, Response>(
    _ stream: SimulatedConnd.Stream<Message>, to writer: RPCWriter<Response>,
    _ response: (Message) -> Response
  ) async throws {
    defer { self.connd.dismiss(stream.number) }
    try await withRPCCancellationHandler {
      for await message in stream.messages { try await writer.write(response(message)) }
    } onCancelRPC: {
      stream.end()
    }
    try self.connd.requireRunning()
  }

  private func take(_ request: Connectivity_V1_GuardRequest, _ guardian: UInt64) {
    switch request.request {
    case .add(let flow):
      let key = FlowTable.Key(guardian: guardian, id: flow.id)
      do throws(FlowRefusal) {
        let registration = try FlowTable.Registration(flow, key) { name in
          self.connd.read { $0.machine.linkIndex(name) }
        }
        self.connd.add(registration)
      } catch {
        self.connd.refuse(key, error)
      }
    case .remove(let flow):
      self.connd.remove(.init(guardian: guardian, id: flow.id))
    // In a simulation, nothing is heard that the simulated kernel does not know.
    case .heard: break
    case nil:
      self.connd.refuse(
        .init(guardian: guardian, id: 0), .invalid("request: set add, remove or heard"))
    }
  }
}

extension SimulatedConnd {
  /// - Throws: UNAVAILABLE if connd is stopped.
  func requireRunning() throws {
    if !self.isRunning { throw RPCError.stopping }
  }
}

extension RPCError {
  /// The error that ends every stream when connd stops.
  fileprivate static let stopping = RPCError(code: .unavailable, message: "connd is stopping")
}

extension IPAddress {
  /// - Throws: INVALID_ARGUMENT if the text is not an address.
  init(_ text: String, _ field: String) throws(RPCError) {
    guard let address = IPAddress(text)?.unmapped else {
      throw RPCError(
        code: .invalidArgument,
        message: "\(field): '\(text)' is neither an IPv4 nor an IPv6 address")
    }
    self = address
  }
}

extension FlowTable.Registration {
  /// - Throws: A refusal that names the invalid field.
  fileprivate init(
    _ message: Connectivity_V1_Flow, _ key: FlowTable.Key,
    linkIndex: (_ name: String) -> UInt32?
  ) throws(FlowRefusal) {
    func address(_ text: String, _ field: String) throws(FlowRefusal) -> IPAddress {
      guard let address = IPAddress(text)?.unmapped else {
        throw .invalid("\(field): '\(text.prefix(64))' is neither an IPv4 nor an IPv6 address")
      }
      if address.isUnspecified {
        throw .invalid("\(field): '\(text.prefix(64))' is not a host address")
      }
      return address
    }

    let remote = try address(message.remote, "add.remote")
    let local = message.hasLocal ? try address(message.local, "add.local") : nil
    if let local, message.hasLocal, !remote.isLoopback, local.family != remote.family {
      throw .invalid("add.local: \(local) must have the same address family as \(remote)")
    }
    var destination = Destination(remote, mark: message.mark)
    if message.hasInterface {
      guard let index = linkIndex(message.interface) else {
        throw .invalid("add.interface: there is no link '\(message.interface.prefix(16))'")
      }
      destination.outLink = index
    }
    do throws(ConversionError) {
      destination.transport = try Transport(message)
    } catch {
      throw .invalid("add.\(error)")
    }
    self.init(
      key: key,
      flow: Flow(
        destination, local: local,
        forbidsExpensive: message.forbidsExpensive,
        forbidsConstrained: message.forbidsConstrained))
    if message.hasKnownPath {
      do throws(ConversionError) {
        self.knownPath = try KernelPath(message.knownPath)
      } catch {
        throw .invalid("add.known_path: \(error)")
      }
    }
    if message.hasSinceGeneration { self.sinceGeneration = message.sinceGeneration }
  }
}

/// The kinds of changes that a subscriber requested.
struct ChangeKinds: Sendable {
  private let kinds: Set<Connectivity_V1_EventKind>

  /// - Parameter kinds: Empty means all.
  /// - Throws: INVALID_ARGUMENT if a value is not a kind of event.
  init(_ kinds: [Connectivity_V1_EventKind]) throws {
    let known: Set<Connectivity_V1_EventKind> = [.transition, .path, .invalidation, .dns]
    if let kind = kinds.first(where: { !known.contains($0) }) {
      throw RPCError(
        code: .invalidArgument, message: "events: \(kind.rawValue) is not a kind of event")
    }
    self.kinds = kinds.isEmpty ? known : Set(kinds)
  }

  func contain(_ change: ConnectivityChange) -> Bool {
    switch change {
    case .transition: self.kinds.contains(.transition)
    case .path: self.kinds.contains(.path)
    case .invalidation: self.kinds.contains(.invalidation)
    case .dns: self.kinds.contains(.dns)
    }
  }
}
