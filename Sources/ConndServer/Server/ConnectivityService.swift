import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityRules
import GRPCCore
import LinuxSupport
import UnixTransport

/// Implements `connectivity.v1.Connectivity` with the store and the monitor, except `Watch`, which
/// ``WatchService`` implements.
struct ConnectivityService: RegistrableRPCService {
  let store: Store
  let queries: MonitorQueries
  let clients: ClientList
  /// The rate of reports (Q3).
  private let reportRate = ChangeRate()

  private typealias Method = Connectivity_V1_Connectivity.Method

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.unary(Method.GetStatus.descriptor) { (_: Connectivity_V1_GetStatusRequest, _) in
      Connectivity_V1_Status(self.store.snapshot, networkNamespace: ProcessNamespace.reported)
    }
    router.unary(Method.GetPath.descriptor) { (request: Connectivity_V1_GetPathRequest, caller) in
      try await self.path(request, caller)
    }
    router.unary(Method.ReportAttempt.descriptor, self.reportAttempt)
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
        store: self.store, monitor: self.queries.monitor, clients: self.clients,
        limiter: self.queries.limiter
      ).run(requests, peer, writer)
    }
  }

  private func path(
    _ request: Connectivity_V1_GetPathRequest, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_GetPathResponse {
    let destination = try Destination(request, uid: caller.uid)
    let path: KernelPath = try await self.queries.answer(for: caller) { .path(destination, $0) }
    var response = Connectivity_V1_GetPathResponse()
    response.destination = request.destination
    response.path = Connectivity_V1_Path(path)
    response.networkNamespace = ProcessNamespace.reported
    guard request.withOtherWay else { return response }
    let otherWay: KernelAnswer<OtherWay> = try await self.queries.answer(for: caller) {
      .otherWay(destination, $0)
    }
    if case .success(let otherWay) = otherWay {
      response.otherWay = Connectivity_V1_OtherWay(otherWay)
    }
    return response
  }

  private func reportAttempt(
    _ request: Connectivity_V1_ReportAttemptRequest, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_ReportAttemptResponse {
    guard let outcome = AttemptOutcome(known: request.outcome) else {
      throw RPCError(code: .invalidArgument, message: "outcome: is not set or unknown")
    }
    var asked = Connectivity_V1_GetPathRequest()
    asked.destination = request.destination
    if request.hasRemotePort { asked.remotePort = request.remotePort }
    let destination = try Destination(asked, uid: caller.uid)
    // After RESOURCE_EXHAUSTED, clients would connect again.
    guard self.reportRate.take(of: caller) else { return Connectivity_V1_ReportAttemptResponse() }
    let answer: KernelAnswer<LinkQuality> = try await self.queries.answer(for: caller) {
      .attempt(destination, outcome, $0)
    }
    var response = Connectivity_V1_ReportAttemptResponse()
    if case .success(let quality) = answer, quality != .unknown {
      response.quality = Connectivity_V1_Quality(quality)
    }
    return response
  }

  private func watchPath(
    _ request: Connectivity_V1_WatchPathRequest, _ peer: PeerCredentials,
    _ writer: RPCWriter<Connectivity_V1_WatchPathResponse>
  ) async throws {
    var destination = try Destination(request.destination, uid: peer.uid, mark: request.mark)
    if request.hasVia { destination.outLink = try Destination.link(named: request.via) }
    let bound = destination
    let watch = try await self.queries.answer(for: peer) { .watch(bound, $0) }
    let client = self.clients.enter(peer, .path(destination: request.destination))
    defer { self.clients.leave(client) }
    try await withRPCCancellationHandler {
      for await path in watch.paths {
        var response = Connectivity_V1_WatchPathResponse()
        response.destination = request.destination
        response.path = Connectivity_V1_Path(path)
        response.generation = self.store.snapshot.generation
        response.networkNamespace = ProcessNamespace.reported
        try await writer.write(response)
      }
    } onCancelRPC: {
      self.queries.monitor.submit(.unwatch(bound, watcher: watch.watcher))
    }
    if self.store.isFinished { throw RPCError.stopping }
  }
}

extension Destination {
  /// - Throws: INVALID_ARGUMENT if the text is not the address of a host.
  init(_ text: String, uid: UInt32, mark: UInt32) throws {
    do throws(HostAddressError) {
      let address = try IPAddress(ofHost: text, field: "destination")
      self.init(address, uid: uid, mark: mark)
    } catch {
      throw RPCError(code: .invalidArgument, message: error.message)
    }
  }

  /// Returns the index of the link that a request names.
  ///
  /// - Throws: INVALID_ARGUMENT if the link does not exist.
  fileprivate static func link(named name: String) throws -> UInt32 {
    guard let index = linkIndex(name) else {
      throw RPCError(
        code: .invalidArgument, message: "via: there is no link '\(name.prefix(256))'")
    }
    return index
  }

  /// - Throws: INVALID_ARGUMENT for an invalid field.
  fileprivate init(_ request: Connectivity_V1_GetPathRequest, uid: UInt32) throws {
    try self.init(request.destination, uid: uid, mark: request.mark)
    if request.hasVia { self.outLink = try Self.link(named: request.via) }
    if request.hasRemotePort {
      guard let port = UInt16(exactly: request.remotePort) else {
        throw RPCError(code: .invalidArgument, message: "remote_port: not a port")
      }
      self.transport = Transport(Transport.tcp, remotePort: port)
    }
  }
}
