import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import LinuxSupport
import UnixTransport

/// connd's services, on one connection.
struct ConndServices: Sendable {
  typealias Connectivity = Connectivity_V1_Connectivity.Method
  typealias Costs = Connectivity_V1_Costs.Method
  typealias Diagnostics = Connectivity_V1_Diagnostics.Method

  fileprivate let client: GRPCClient<UnixClientTransport>
  let thread: ClientThread

  /// How long connd may take to answer. After that, connd counts as absent.
  private static let timeout = Duration.seconds(10)

  /// Makes a call that connd answers immediately. gRPC's own timeout would start libdispatch, which
  /// then wakes connctl once a second (D7).
  func call<Method: ServiceMethod & SendableMetatype>(
    _ method: Method.Type, _ request: Method.Input = Method.Input()
  ) async throws -> Method.Output {
    try await withThrowingTaskGroup(of: Method.Output.self) { group in
      // At once, because connd may refuse the connection, and a later call would not learn why.
      group.addImmediateTask { try await self.client.unary(method, request) }
      group.addTask {
        try await self.thread.sleep(for: Self.timeout)
        throw RPCError(code: .deadlineExceeded, message: "connd does not answer.")
      }
      defer { group.cancelAll() }
      guard let response = try await group.next() else { throw CancellationError() }
      return response
    }
  }
}

/// The error if the running connd does not know a call.
struct OlderConnd: Error, CustomStringConvertible {
  /// connd's version, empty or `nil` if it is unknown.
  var version: String?

  var description: String {
    let running = self.version.flatMap { $0.isEmpty ? nil : $0 } ?? "of an unknown version"
    return
      "the running connd is \(running) and does not know this command of connctl \(Version.built): restart connd (systemctl restart connd.service)"
  }
}

extension Connector {
  /// Runs the body with connd's services, on a new connection.
  ///
  /// - Throws: ``ConndError``; other errors of the body.
  func withServices<Result: Sendable>(
    at socket: String, _ body: (ConndServices) async throws -> Result
  ) async throws -> Result {
    do {
      let transport = UnixClientTransport(
        connected: try await self.connect(to: socket), on: try self.thread.reactor)
      return try await withThrowingTaskGroup(of: Void.self) { group in
        let client = GRPCClient(transport: transport)
        group.addTask { try await client.runConnections() }
        defer {
          // The order matters: cancelling only the transport would leave calls that wait for a
          // connection hanging.
          client.beginGracefulShutdown()
          group.cancelAll()
        }
        let connd = ConndServices(client: client, thread: self.thread)
        do {
          return try await body(connd)
        } catch let error as RPCError where error.code == .unimplemented {
          throw OlderConnd(
            version: (try? await connd.call(ConndServices.Diagnostics.GetStatistics.self))?.version)
        }
      }
    } catch let error as ConversionError {
      throw error
    } catch let error as OlderConnd {
      throw error
    } catch let error as ForeignNamespace {
      throw error
    } catch {
      throw ConndError.reading(error)
    }
  }
}

extension ConndServices {
  /// Returns the path of the calling user's new connections to a host.
  ///
  /// - Parameter link: The link that they are bound to, or `nil` for none.
  /// - Throws: `ForeignNamespace` if connd is in another network namespace; errors of the call.
  func path(to address: IPAddress, via link: String? = nil) async throws -> KernelPath {
    var request = Connectivity_V1_GetPathRequest()
    request.destination = address.description
    if let link { request.via = link }
    let response = try await self.call(Connectivity.GetPath.self, request)
    if let foreign = ForeignNamespace(of: response.networkNamespace) { throw foreign }
    return try KernelPath(response.path)
  }
}

/// Calls that return all pages of a list.
extension ConndServices {
  func links() async throws -> [Connectivity_V1_Link] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListLinksRequest()
      request.pageToken = token
      let page = try await self.call(Diagnostics.ListLinks.self, request)
      return (page.links, page.nextPageToken)
    }
  }

  func networks() async throws -> [Connectivity_V1_Network] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListNetworksRequest()
      request.pageToken = token
      let page = try await self.call(Costs.ListNetworks.self, request)
      return (page.networks, page.nextPageToken)
    }
  }

  /// Returns the choice of `connctl assist`.
  func assist() async throws -> Connectivity_V1_ListNetworksResponse {
    var request = Connectivity_V1_ListNetworksRequest()
    request.pageSize = 1
    return try await self.call(Costs.ListNetworks.self, request)
  }

  func clients() async throws -> [Connectivity_V1_Client] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListClientsRequest()
      request.pageToken = token
      let page = try await self.call(Diagnostics.ListClients.self, request)
      return (page.clients, page.nextPageToken)
    }
  }

  func connections() async throws -> [Connectivity_V1_Connection] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListConnectionsRequest()
      request.pageToken = token
      let page = try await self.call(Diagnostics.ListConnections.self, request)
      return (page.connections, page.nextPageToken)
    }
  }

  /// Returns the history, oldest first.
  ///
  /// - Parameter limit: The number of latest transitions to return, or `nil` for all.
  func history(limit: UInt32? = nil) async throws -> [ConnectivityChange] {
    try await Self.allPages { token in
      var request = Connectivity_V1_ListTransitionsRequest()
      if let limit { request.limit = limit }
      request.pageToken = token
      let page = try await self.call(Diagnostics.ListTransitions.self, request)
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
