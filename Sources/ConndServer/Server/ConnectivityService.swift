import Connectivity
import ConnectivityProtocol
import GRPCCore
import GRPCProtobuf
import SwiftProtobuf
import UnixTransport

/// Implements `connectivity.v1.Connectivity` with the store and the monitor, except `Watch`, which
/// ``WatchService`` implements.
struct ConnectivityService: RegistrableRPCService {
  let store: Store
  let monitor: Monitor
  let reporter: StatisticsReporter
  let limiter: ConnectionLimiter
  let clients: ClientList
  var authority = CostAuthorization()

  private typealias Method = Connectivity_V1_Connectivity.Method

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.unary(Method.GetStatus.descriptor) { (_: Connectivity_V1_GetStatusRequest, _) in
      Connectivity_V1_Status(self.store.snapshot, networkNamespace: NetworkNamespace.told)
    }
    router.unary(Method.GetPath.descriptor) { (request: Connectivity_V1_GetPathRequest, caller) in
      try await self.path(request, caller)
    }
    router.serverStreaming(
      Method.WatchPath.descriptor, ProtobufSerializer<Connectivity_V1_WatchPathResponse>()
    ) { (request: Connectivity_V1_WatchPathRequest, peer, writer) in
      try await self.watchPath(request, peer, writer)
    }
    router.bidirectional(
      Method.Guard.descriptor
    ) {
      (requests: RPCAsyncSequence<Connectivity_V1_GuardRequest, any Error>, peer, writer) in
      try await GuardService(
        store: self.store, monitor: self.monitor, clients: self.clients, limiter: self.limiter
      ).run(requests, peer, writer)
    }
    router.unary(Method.Explain.descriptor) { (request: Connectivity_V1_ExplainRequest, caller) in
      try await self.explain(request, caller)
    }
    router.unary(
      Method.ListLinks.descriptor, EncodedSerializer()
    ) { (_: Connectivity_V1_ListLinksRequest, caller) in
      try Connectivity_V1_ListLinksResponse.encoded(
        try await self.answer(for: caller) { .listLinks($0) }.orUnavailable())
    }
    router.unary(
      Method.ListTransitions.descriptor
    ) { (request: Connectivity_V1_ListTransitionsRequest, _) in
      self.listTransitions(request)
    }
    let costs = CostService(authority: self.authority) { request, caller in
      try await self.answer(for: caller) { .costs(request, $0) }
    }
    router.unary(Method.SetCost.descriptor, costs.set)
    router.unary(Method.ListNetworks.descriptor, costs.list)
    router.unary(Method.ForgetNetwork.descriptor, costs.forget)
    router.unary(
      Method.GetStatistics.descriptor
    ) { (_: Connectivity_V1_GetStatisticsRequest, _) in
      Connectivity_V1_GetStatisticsResponse(
        await self.reporter.figures(), since: self.reporter.started.time)
    }
    router.unary(Method.ListClients.descriptor) { (_: Connectivity_V1_ListClientsRequest, caller) in
      let clients = self.clients.clients(for: caller.uid)
      guard let counts = await self.monitor.ask({ .count($0) }) else { throw RPCError.stopping }
      return Connectivity_V1_ListClientsResponse(clients, flows: counts.flowsOfClients)
    }
  }

  private func path(
    _ request: Connectivity_V1_GetPathRequest, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_GetPathResponse {
    let destination = try Destination(request.destination, uid: caller.uid, mark: request.mark)
    let path: Path = try await self.answer(for: caller) { .path(destination, $0) }
    return Connectivity_V1_GetPathResponse.with {
      $0.destination = request.destination
      $0.path = Connectivity_V1_Path(path)
      $0.networkNamespace = NetworkNamespace.told
    }
  }

  private func watchPath(
    _ request: Connectivity_V1_WatchPathRequest, _ peer: PeerCredentials,
    _ writer: RPCWriter<Connectivity_V1_WatchPathResponse>
  ) async throws {
    let destination = try Destination(request.destination, uid: peer.uid, mark: request.mark)
    let watch = try await self.answer(for: peer) { .watch(destination, $0) }
    let client = self.clients.enter(peer, .path(destination: request.destination))
    defer { self.clients.leave(client) }
    try await withRPCCancellationHandler {
      for await path in watch.paths {
        var response = Connectivity_V1_WatchPathResponse()
        response.destination = request.destination
        response.path = Connectivity_V1_Path(path)
        response.generation = self.store.snapshot.generation
        try await writer.write(response)
      }
    } onCancelRPC: {
      self.monitor.submit(.unwatch(destination, watcher: watch.watcher))
    }
    if self.store.isFinished { throw RPCError.stopping }
  }

  private func explain(
    _ request: Connectivity_V1_ExplainRequest, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_Explanation {
    let destination = try request.hasDestination ? Destination(request, uid: caller.uid) : nil
    return Connectivity_V1_Explanation(
      try await self.answer(for: caller) { .explain(destination, $0) }.orUnavailable())
  }

  private func listTransitions(
    _ request: Connectivity_V1_ListTransitionsRequest
  ) -> Connectivity_V1_ListTransitionsResponse {
    let past = self.store.past
    let transitions = past.compactMap { published in
      if case .transition(let transition) = published.change { transition } else { nil }
    }
    let limit = request.limit == 0 ? transitions.count : Int(request.limit)
    let chosen = transitions.suffix(limit)
    let first = limit < transitions.count ? chosen.first?.snapshot.generation ?? 0 : 0
    return .with { response in
      response.transitions = chosen.map {
        Connectivity_V1_Transition($0, networkNamespace: NetworkNamespace.told)
      }
      response.invalidations = past.compactMap { published in
        guard case .invalidation(let invalidation) = published.change,
          invalidation.generation > first
        else { return nil }
        return Connectivity_V1_Invalidation(invalidation)
      }
      response.choices = past.compactMap { published in
        guard case .path(let change) = published.change, change.cause.trigger == .user,
          change.snapshot.generation > first
        else { return nil }
        return Connectivity_V1_PathChange(change, networkNamespace: NetworkNamespace.told)
      }
    }
  }

  /// Sends a query to the monitor and waits for the answer, unless the client cancels.
  private func answer<Answer: Sendable>(
    for caller: PeerCredentials, _ kind: @Sendable (Reply<Answer>) -> KernelQuery.Kind
  ) async throws -> Answer {
    try self.limiter.admitQuestion(of: caller)
    defer { self.limiter.releaseQuestion(of: caller) }
    let id = KernelQuery.nextID()
    let answer = await withRPCCancellationHandler {
      await self.monitor.ask {
        .query(KernelQuery(id: id, account: caller.account, kind: kind($0)))
      }
    } onCancelRPC: {
      self.monitor.submit(.drop(id, of: caller.account))
    }
    guard let answer else { throw RPCError.stopping }
    return answer
  }
}

extension Result where Failure == KernelUnavailable {
  /// - Throws: UNAVAILABLE without an answer.
  fileprivate func orUnavailable() throws(RPCError) -> Success {
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

  /// - Throws: INVALID_ARGUMENT if the text is not the address of a host.
  fileprivate init(_ text: String, uid: UInt32, mark: UInt32) throws {
    do throws(HostAddressError) {
      let address = try IPAddress(ofHost: text, field: "destination")
      self.init(address, uid: uid, mark: mark)
    } catch {
      throw RPCError(code: .invalidArgument, message: error.message)
    }
  }
}
