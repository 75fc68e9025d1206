import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import Synchronization

@testable import ConnctlCommands

/// Every list has one entry on each page.
private func page<Entry>(_ entries: [Entry], _ token: String) throws -> (
  entry: [Entry], next: String
) {
  guard let place = token.isEmpty ? 0 : Int(token), entries.indices.contains(place) else {
    throw RPCError(code: .invalidArgument, message: "page_token: \(token)")
  }
  return ([entries[place]], place + 1 < entries.count ? "\(place + 1)" : "")
}

/// The costs of a scripted connd.
struct StubCosts: RegistrableRPCService {
  let connd: StubConnd

  func registerMethods(with router: inout RPCRouter<some ServerTransport>) {
    typealias Method = Connectivity_V1_Costs.Method
    router.unary(Method.SetCost.self, self.setCost)
    router.unary(Method.ListNetworks.self, self.listNetworks)
    router.unary(Method.ForgetNetwork.self, self.forgetNetwork)
    router.unary(Method.SetAssist.self, self.setAssist)
  }

  func setCost(
    request: Connectivity_V1_SetCostRequest, context: ServerContext
  ) async throws -> Connectivity_V1_SetCostResponse {
    try self.connd.fail()
    self.connd.said.withLock { $0.append(request) }
    var response = Connectivity_V1_SetCostResponse()
    if request.link == "eth0" { response.overruledBy = "eth*" }
    response.notKept = request.link == "sealed0"
    return response
  }

  func listNetworks(
    request: Connectivity_V1_ListNetworksRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListNetworksResponse {
    try self.connd.fail()
    var response = Connectivity_V1_ListNetworksResponse()
    (response.networks, response.nextPageToken) = try page(
      [.here, .away, .cable], request.pageToken)
    return response
  }

  func setAssist(
    request: Connectivity_V1_SetAssistRequest, context: ServerContext
  ) async throws -> Connectivity_V1_SetAssistResponse {
    Connectivity_V1_SetAssistResponse()
  }

  func forgetNetwork(
    request: Connectivity_V1_ForgetNetworkRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ForgetNetworkResponse {
    try self.connd.fail()
    guard ["Home", "Sealed"].contains(request.network) else {
      throw RPCError(code: .notFound, message: "no override for “\(request.network)”")
    }
    var response = Connectivity_V1_ForgetNetworkResponse()
    response.notKept = request.network == "Sealed"
    return response
  }
}

/// The diagnostics of a scripted connd.
struct StubDiagnostics: RegistrableRPCService {
  /// Whether it is an older connd without the newest calls.
  let isOld: Bool

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
    var explanation = Connectivity_V1_Explanation.sample
    if request.hasDestination { explanation.destination = request.destination }
    return explanation
  }

  func listLinks(
    request: Connectivity_V1_ListLinksRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListLinksResponse {
    var response = Connectivity_V1_ListLinksResponse()
    (response.links, response.nextPageToken) = try page([.wlan, .docker], request.pageToken)
    return response
  }

  func getStatistics(
    request: Connectivity_V1_GetStatisticsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetStatisticsResponse {
    let figures: [(name: String, kind: String, value: UInt64, present: Bool)] = [
      ("kernel_losses", "", 0, false), ("overruns", "", 12, false),
      ("published", "path", 3, false), ("published", "transition", 104, false),
      ("refutations", "betterPath", 5, false), ("subscribers", "", 2, true),
    ]
    var response = Connectivity_V1_GetStatisticsResponse()
    response.startTime = .init(ConnectivityChange.Transition.sample.snapshot.since)
    response.version = "0.0.9"
    response.statistics = figures.map { figure in
      var statistic = Connectivity_V1_Statistic()
      (statistic.name, statistic.kind) = (figure.name, figure.kind)
      (statistic.value, statistic.present) = (figure.value, figure.present)
      return statistic
    }
    return response
  }

  func listClients(
    request: Connectivity_V1_ListClientsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListClientsResponse {
    if self.isOld { throw RPCError(code: .unimplemented, message: "there is no such method") }
    var response = Connectivity_V1_ListClientsResponse()
    (response.clients, response.nextPageToken) = try page(
      [.watcher, .guardian], request.pageToken)
    return response
  }

  func diagnose(
    request: Connectivity_V1_DiagnoseRequest, context: ServerContext
  ) async throws -> Connectivity_V1_Diagnosis {
    request.hosts == ["203.0.113.9"] ? .silentHost : .nothingWrong
  }

  func listConnections(
    request: Connectivity_V1_ListConnectionsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListConnectionsResponse {
    if self.isOld { throw RPCError(code: .unimplemented, message: "Method not found!") }
    var response = Connectivity_V1_ListConnectionsResponse()
    (response.connections, response.nextPageToken) = try page(
      [.alive, .sample], request.pageToken)
    return response
  }

  func getConfiguration(
    request: Connectivity_V1_GetConfigurationRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetConfigurationResponse {
    throw RPCError(code: .unimplemented, message: "there is no such method")
  }

  func listTransitions(
    request: Connectivity_V1_ListTransitionsRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ListTransitionsResponse {
    let all = [ConnectivityChange.Transition.sample, .bounce].suffix(
      request.hasLimit ? Int(request.limit) : 2)
    let (entry, next) = try page(
      all.map { ConnectivityChange.transition($0) } + [.invalidation(.sample)], request.pageToken)
    var response = Connectivity_V1_ListTransitionsResponse()
    response.nextPageToken = next
    for change in entry {
      switch change {
      case .transition(let transition): response.transitions = [.init(transition)]
      case .invalidation(let invalidation): response.invalidations = [.init(invalidation)]
      case .path, .dns: break
      }
    }
    return response
  }
}
