internal import Connectivity
private import ConnectivityProtobuf
internal import ConnectivityProtocol
internal import GRPCCore

/// The service `connectivity.v1.Diagnostics` on top of the simulation. The service `Costs` is
/// missing, because the test decides what a network costs.
struct DiagnosticsService: RegistrableRPCService {
  let connd: SimulatedConnd

  func registerMethods(with router: inout RPCRouter<some ServerTransport>) {
    typealias Method = Connectivity_V1_Diagnostics.Method
    router.unary(Method.Explain.self, self.explain)
    router.unary(Method.ListLinks.self, self.listLinks)
    router.unary(Method.ListTransitions.self, self.listTransitions)
    router.unary(Method.GetStatistics.self, self.getStatistics)
    router.unary(Method.ListClients.self, self.listClients)
    router.unary(Method.ListConnections.self, self.listConnections)
    router.unary(Method.Diagnose.self, self.diagnose)
    router.unary(Method.GetConfiguration.self, self.getConfiguration)
  }

  func explain(
    request: Connectivity_V1_ExplainRequest, context: ServerContext
  ) async throws -> Connectivity_V1_Explanation {
    try self.connd.requireRunning()
    let asked = request.hasDestination ? try IPAddress(request.destination, "destination") : nil
    return self.connd.read { $0.explain(asked) }
  }

  func listLinks(
    request: Connectivity_V1_ListLinksRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListLinksResponse {
    try self.connd.requireRunning()
    let page = try PageRequest(size: request.pageSize, token: request.pageToken, of: "links")
    let links = self.connd.read { $0.links }.enumerated()
    return try page.response(
      with: links, key: { place, _ in PageRequest.key(UInt64(place)) },
      token: { token in
        var response = Connectivity_V1_ListLinksResponse()
        response.nextPageToken = token
        return response
      }
    ) { _, link in
      var response = Connectivity_V1_ListLinksResponse()
      response.links = [link]
      return response
    }
  }

  func listTransitions(
    request: Connectivity_V1_ListTransitionsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListTransitionsResponse {
    try self.connd.requireRunning()
    let limit = Int(request.limit)
    let page = try PageRequest(
      size: request.pageSize, token: request.pageToken, of: "transitions \(limit)")
    let changes = self.connd.read { $0.changes(ofLatestTransitions: limit) }
    return try page.response(
      with: changes, key: { PageRequest.key($0.generation) },
      token: { token in
        var response = Connectivity_V1_ListTransitionsResponse()
        response.nextPageToken = token
        return response
      }
    ) { change in
      var response = Connectivity_V1_ListTransitionsResponse()
      switch change {
      case .transition(let transition): response.transitions = [.init(transition)]
      case .invalidation(let invalidation): response.invalidations = [.init(invalidation)]
      case .path, .dns: break
      }
      return response
    }
  }

  /// Returns an empty list, because simulated connections have no sockets.
  func listConnections(
    request: Connectivity_V1_ListConnectionsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListConnectionsResponse {
    try self.connd.requireRunning()
    _ = try PageRequest(size: request.pageSize, token: request.pageToken, of: "connections")
    return Connectivity_V1_ListConnectionsResponse()
  }

  /// Returns that nothing is known, because simulated connections have no sockets.
  func diagnose(
    request: Connectivity_V1_DiagnoseRequest, context: ServerContext
  ) async throws -> Connectivity_V1_Diagnosis {
    try self.connd.requireRunning()
    var diagnosis = Connectivity_V1_Diagnosis()
    diagnosis.verdict = .unknown
    return diagnosis
  }

  /// Always fails. The response is for starting a real connd in the same state, and a simulated
  /// network has no such state.
  func getConfiguration(
    request: Connectivity_V1_GetConfigurationRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetConfigurationResponse {
    try self.connd.requireRunning()
    throw RPCError(code: .unimplemented, message: "a simulated network has no configuration")
  }

  /// Returns empty statistics, because a simulated connd has no counters.
  func getStatistics(
    request: Connectivity_V1_GetStatisticsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetStatisticsResponse {
    try self.connd.requireRunning()
    return Connectivity_V1_GetStatisticsResponse()
  }

  /// Returns an empty list, because a simulated connd does not list its clients.
  func listClients(
    request: Connectivity_V1_ListClientsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListClientsResponse {
    try self.connd.requireRunning()
    return Connectivity_V1_ListClientsResponse()
  }
}
