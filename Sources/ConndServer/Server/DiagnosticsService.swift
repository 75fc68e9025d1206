import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import UnixTransport

/// Implements `connectivity.v1.Diagnostics` with the store and the monitor.
struct DiagnosticsService: RegistrableRPCService {
  let store: Store
  let queries: MonitorQueries
  let reporter: StatisticsReporter
  let clients: ClientList
  let configuration: @Sendable () -> Configuration
  var connections = ConnectionListing()
  var sampler = SocketSampler()
  let reactor: Reactor
  let encodings = AccountTurns(maxRunning: 1)
  let listings = AccountTurns(maxRunning: ConnectionListing.maxPerUser)
  let diagnoses = AccountTurns(maxRunning: SocketSampler.maxPerUser)

  private typealias Method = Connectivity_V1_Diagnostics.Method

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.unary(Method.Explain.descriptor) { (request: Connectivity_V1_ExplainRequest, caller) in
      try await self.explain(request, caller)
    }
    router.unary(
      Method.ListLinks.descriptor
    ) { (request: Connectivity_V1_ListLinksRequest, caller) in
      try await self.listLinks(request, caller)
    }
    router.unary(
      Method.ListTransitions.descriptor
    ) { (request: Connectivity_V1_ListTransitionsRequest, caller) in
      try await self.listTransitions(request, caller)
    }
    router.unary(
      Method.GetStatistics.descriptor
    ) { (_: Connectivity_V1_GetStatisticsRequest, _) in
      Connectivity_V1_GetStatisticsResponse(
        await self.reporter.figures(), since: self.reporter.started.time)
    }
    router.unary(
      Method.ListClients.descriptor
    ) { (request: Connectivity_V1_ListClientsRequest, caller) in
      try await self.listClients(request, caller)
    }
    router.unary(
      Method.ListConnections.descriptor
    ) { (request: Connectivity_V1_ListConnectionsRequest, caller) in
      try await self.listConnections(request, caller)
    }
    router.unary(
      Method.Diagnose.descriptor
    ) { (request: Connectivity_V1_DiagnoseRequest, caller) in
      try await self.diagnose(request, caller)
    }
    router.unary(
      Method.GetConfiguration.descriptor
    ) { (_: Connectivity_V1_GetConfigurationRequest, caller) in
      try await self.configuration(for: caller)
    }
  }

  private func explain(
    _ request: Connectivity_V1_ExplainRequest, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_Explanation {
    let destination = try request.hasDestination ? Destination(request, uid: caller.uid) : nil
    let all = try await self.queries.answer(for: caller) { .listLinks($0) }.orUnavailable()
    var compared = all.comparable
    if request.hasInterface {
      guard let link = all.first(where: { $0.facts.link.names.contains(request.interface) }) else {
        throw RPCError(
          code: .invalidArgument, message: "interface: there is no link “\(request.interface)”")
      }
      compared = [link.facts.link.index]
    }
    let explanation = try await self.queries.answer(for: caller) { [compared] in
      .explain(destination, links: compared, $0)
    }.orUnavailable()
    return Connectivity_V1_Explanation(
      explanation, links: all, isComplete: request.hasInterface)
  }

  private func listLinks(
    _ request: Connectivity_V1_ListLinksRequest, _ caller: PeerCredentials
  ) async throws -> [UInt8] {
    let page = try PageRequest(size: request.pageSize, token: request.pageToken, of: "links")
    // The links of many calls would take much memory, so a call reads them in its turn.
    return try await self.queries.admitted(for: caller) {
      try await self.inTurn(self.encodings, for: caller) { turn, memory in
        let links = try await self.queries.admittedAnswer(for: caller) {
          .listLinks($0)
        }.orUnavailable()
        return try await self.encode(
          links, on: page, turn, memory, key: \.key,
          token: { token in Connectivity_V1_ListLinksResponse.with { $0.nextPageToken = token } }
        ) { link in
          Connectivity_V1_ListLinksResponse.with { $0.links = [Connectivity_V1_Link(link)] }
        }
      }
    }
  }

  private func listTransitions(
    _ request: Connectivity_V1_ListTransitionsRequest, _ caller: PeerCredentials
  ) async throws -> [UInt8] {
    let limit = Int(request.limit)
    let page = try PageRequest(
      size: request.pageSize, token: request.pageToken, of: "transitions \(limit)")
    let past = self.store.past
    // Later pages continue after the previous one, however many transitions were added since.
    let first = request.pageToken.isEmpty ? past.generation(ofLatestTransitions: limit) : 0
    return try await self.inTurn(self.encodings, for: caller) { turn, memory in
      try await self.encode(
        past.filter { $0.change.generation >= first && $0.change.isInHistory }, on: page,
        turn, memory, key: { PageRequest.key($0.change.generation) },
        token: { token in Connectivity_V1_ListTransitionsResponse.with { $0.nextPageToken = token }
        }
      ) { Connectivity_V1_ListTransitionsResponse($0.change) }
    }
  }

  private func listClients(
    _ request: Connectivity_V1_ListClientsRequest, _ caller: PeerCredentials
  ) async throws -> [UInt8] {
    let page = try PageRequest(size: request.pageSize, token: request.pageToken, of: "clients")
    let clients = self.clients.clients(for: caller.uid)
    guard let counts = await self.queries.monitor.ask({ .count($0) }) else {
      throw RPCError.stopping
    }
    return page.encodedResponse(
      with: clients, key: { PageRequest.key($0.id) },
      token: { token in Connectivity_V1_ListClientsResponse.with { $0.nextPageToken = token } }
    ) { client in
      Connectivity_V1_ListClientsResponse.with {
        $0.clients = [Connectivity_V1_Client(client, flows: counts.flowsOfClients)]
      }
    }
  }
}

// Lists that take long to encode (D4).
extension DiagnosticsService {
  /// The number of entries to encode before other users' tasks run. They take about 60 µs.
  private static let part = 64

  /// Encodes a page in parts. Thus a user with many calls delays other users only by a part.
  func encode<Entry, Response: Message>(
    _ entries: [Entry], on page: PageRequest, _ turn: AccountTurns.Turn, _ memory: CallMemory,
    key: (Entry) -> String, token: (String) -> Response, _ response: (Entry) -> Response
  ) async throws -> [UInt8] {
    var encoded = EncodedPage(page)
    for (place, entry) in entries.enumerated() {
      if place % Self.part == Self.part - 1 {
        await self.reactor.yield()
        if turn.isCancelled { throw CancellationError() }
        try memory.keep(.answers, encoded.bytes.count)
      }
      guard encoded.append(response(entry), key: key(entry)) else { return encoded.ended(token) }
    }
    return encoded.bytes
  }

  /// Runs a call's work when its account's turn comes, and counts the memory that it keeps.
  func inTurn<Answer>(
    _ turns: AccountTurns, for caller: PeerCredentials,
    _ work: (AccountTurns.Turn, CallMemory) async throws -> Answer
  ) async throws -> Answer {
    do {
      return try await turns.run(for: caller.account) { turn in
        let memory = CallMemory(of: caller, self.queries.limiter)
        defer { memory.close() }
        return try await work(turn, memory)
      }
    } catch is CancellationError where self.store.isFinished {
      throw RPCError.stopping
    }
  }
}

extension CallMemory {
  /// - Throws: RESOURCE_EXHAUSTED if the account may not keep so many bytes.
  func keep(_ part: Part, _ bytes: Int) throws(RPCError) {
    do throws(Refusal) {
      try self.set(part, to: bytes)
    } catch {
      throw RPCError(code: .resourceExhausted, message: error.message)
    }
  }
}

extension LinkReport {
  /// The sort key in a list: the link's rank.
  fileprivate var key: String {
    let (unused, down, medium, index) = self.rank
    return PageRequest.key(
      UInt64(unused) << 48 | UInt64(down) << 40 | UInt64(medium) << 32 | UInt64(index))
  }
}

extension [Published] {
  /// Returns the generation of the first of the latest transitions, or 0 for all of them.
  fileprivate func generation(ofLatestTransitions limit: Int) -> UInt64 {
    guard limit > 0 else { return 0 }
    let generations = self.compactMap { published in
      if case .transition = published.change { published.change.generation } else { nil }
    }
    return limit < generations.count ? generations[generations.count - limit] : 0
  }
}

extension ConnectivityChange {
  /// Whether the history contains the change: a change of the path, or an invalidation.
  var isInHistory: Bool {
    switch self {
    case .transition, .path, .invalidation: true
    case .dns: false
    }
  }
}

extension Connectivity_V1_ListTransitionsResponse {
  /// Creates a response with one entry of the history.
  init(_ change: ConnectivityChange) {
    self.init()
    switch change {
    case .transition(let transition):
      self.transitions = [.init(transition, networkNamespace: ProcessNamespace.reported)]
    case .invalidation(let invalidation): self.invalidations = [.init(invalidation)]
    case .path(let change):
      self.paths = [.init(change, networkNamespace: ProcessNamespace.reported)]
    case .dns: break
    }
  }
}

extension Result where Failure == KernelUnavailable {
  /// - Throws: UNAVAILABLE without an answer.
  func orUnavailable() throws(RPCError) -> Success {
    do throws(KernelUnavailable) {
      return try self.get()
    } catch {
      throw RPCError(code: .unavailable, message: "the kernel cannot be asked: \(error)")
    }
  }
}

extension Destination {
  /// Creates the destination to explain, with the connection if the request names one.
  ///
  /// - Throws: INVALID_ARGUMENT for an invalid field.
  fileprivate init(_ request: Connectivity_V1_ExplainRequest, uid: UInt32) throws {
    try self.init(request.destination, uid: uid, mark: request.mark)
    guard request.hasLocal || request.localPort != 0 || request.remotePort != 0 else { return }
    guard let localPort = UInt16(exactly: request.localPort) else {
      throw RPCError(code: .invalidArgument, message: "local_port: not a port")
    }
    guard let remotePort = UInt16(exactly: request.remotePort) else {
      throw RPCError(code: .invalidArgument, message: "remote_port: not a port")
    }
    self.transport = Transport(Transport.tcp, localPort: localPort, remotePort: remotePort)
    guard request.hasLocal else { return }
    do throws(HostAddressError) {
      self.source = try IPAddress(ofHost: request.local, field: "local")
    } catch {
      throw RPCError(code: .invalidArgument, message: error.message)
    }
    guard self.source?.family == self.address.family else {
      throw RPCError(
        code: .invalidArgument,
        message: "local: must have the same address family as the destination")
    }
  }
}
