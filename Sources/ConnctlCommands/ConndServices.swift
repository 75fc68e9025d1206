import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore

/// The clients of connd's services, on one connection.
struct ConndServices: Sendable {
  let connectivity: any Connectivity_V1_Connectivity.ClientProtocol
  let costs: any Connectivity_V1_Costs.ClientProtocol
  let diagnostics: any Connectivity_V1_Diagnostics.ClientProtocol

  init(_ client: GRPCClient<some ClientTransport>) {
    self.connectivity = Connectivity_V1_Connectivity.Client(wrapping: client)
    self.costs = Connectivity_V1_Costs.Client(wrapping: client)
    self.diagnostics = Connectivity_V1_Diagnostics.Client(wrapping: client)
  }
}

extension Connector {
  /// Runs the body with clients of all services.
  ///
  /// - Throws: ``ConndError``; other errors of the body.
  func withServices<Result: Sendable>(
    at socket: String, _ body: (ConndServices) async throws -> Result
  ) async throws -> Result {
    try await self.withGRPC(at: socket) { try await body(ConndServices($0)) }
  }
}

/// Lists, with all their pages.
extension ConndServices {
  func links() async throws -> [Connectivity_V1_Link] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListLinksRequest()
      request.pageToken = token
      let page = try await self.diagnostics.listLinks(request, options: .prompt)
      return (page.links, page.nextPageToken)
    }
  }

  func networks() async throws -> [Connectivity_V1_Network] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListNetworksRequest()
      request.pageToken = token
      let page = try await self.costs.listNetworks(request, options: .prompt)
      return (page.networks, page.nextPageToken)
    }
  }

  /// Returns the choice of `connctl assist`.
  func assist() async throws -> Connectivity_V1_ListNetworksResponse {
    var request = Connectivity_V1_ListNetworksRequest()
    request.pageSize = 1
    return try await self.costs.listNetworks(request, options: .prompt)
  }

  func clients() async throws -> [Connectivity_V1_Client] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListClientsRequest()
      request.pageToken = token
      let page = try await self.diagnostics.listClients(request, options: .prompt)
      return (page.clients, page.nextPageToken)
    }
  }

  func connections() async throws -> [Connectivity_V1_Connection] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListConnectionsRequest()
      request.pageToken = token
      let page = try await self.diagnostics.listConnections(request, options: .prompt)
      return (page.connections, page.nextPageToken)
    }
  }

  /// Returns the history, oldest first.
  ///
  /// - Parameter limit: The maximum number of transitions, the latest, or `nil` for all.
  func history(limit: UInt32? = nil) async throws -> [ConnectivityChange] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListTransitionsRequest()
      if let limit { request.limit = limit }
      request.pageToken = token
      let page = try await self.diagnostics.listTransitions(request, options: .prompt)
      return (try page.changes(), page.nextPageToken)
    }
  }

  /// Returns the entries of all pages.
  ///
  /// - Parameter page: Returns the entries of a page, and the token of the next one.
  static func allPages<Entry>(
    _ page: (_ token: String) async throws -> ([Entry], next: String)
  ) async throws -> [Entry] {
    var (entries, token) = try await page("")
    while !token.isEmpty {
      let (more, next) = try await page(token)
      guard next != token else { throw ConversionError("next_page_token", "is repeated") }
      entries += more
      token = next
    }
    return entries
  }
}
