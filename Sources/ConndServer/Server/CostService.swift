import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import UnixTransport

/// Implements `connectivity.v1.Costs`: changes and lists users' cost overrides.
struct CostService: RegistrableRPCService {
  let queries: MonitorQueries
  private let authority = CostAuthorization()
  private let rate = ChangeRate()

  init(queries: MonitorQueries) { self.queries = queries }

  private typealias Method = Connectivity_V1_Costs.Method

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.unary(Method.SetCost.descriptor, self.set)
    router.unary(Method.ListNetworks.descriptor, self.list)
    router.unary(Method.ForgetNetwork.descriptor, self.forget)
    router.unary(Method.SetAssist.descriptor, self.assist)
  }

  private func set(
    _ request: Connectivity_V1_SetCostRequest, _ peer: PeerCredentials
  ) async throws -> Connectivity_V1_SetCostResponse {
    try self.rate.admit(peer)
    try await self.authority.check(peer)
    guard
      case .set(let match, let ticket) = try await self.answer(
        .set(try request.request(of: peer.uid)), peer)
    else { return Connectivity_V1_SetCostResponse() }
    let isKept = await ticket?.isKept() ?? false
    return .with {
      if let match { $0.overruledBy = match }
      $0.notKept = !isKept
    }
  }

  private func list(
    _ request: Connectivity_V1_ListNetworksRequest, _ peer: PeerCredentials
  ) async throws -> [UInt8] {
    let page = try PageRequest(size: request.pageSize, token: request.pageToken, of: "networks")
    guard case .list(let networks, let assist) = try await self.answer(.list, peer) else {
      return []
    }
    let choice = Connectivity_V1_ListNetworksResponse(assist: assist)
    return choice.serializedBytes()
      + page.encodedResponse(
        with: networks.enumerated(), key: { place, network in network.key(at: place) },
        token: { token in Connectivity_V1_ListNetworksResponse.with { $0.nextPageToken = token } }
      ) { _, network in
        Connectivity_V1_ListNetworksResponse.with {
          $0.networks = [Connectivity_V1_Network(network, for: peer.uid)]
        }
      }
  }

  private func forget(
    _ request: Connectivity_V1_ForgetNetworkRequest, _ peer: PeerCredentials
  ) async throws -> Connectivity_V1_ForgetNetworkResponse {
    try self.rate.admit(peer)
    try await self.authority.check(peer)
    guard !request.network.isEmpty else {
      throw RPCError(code: .invalidArgument, message: "network: is empty")
    }
    guard
      case .forgotten(let ticket) = try await self.answer(
        .forget(name: request.network, user: peer.uid), peer)
    else { return Connectivity_V1_ForgetNetworkResponse() }
    let isKept = await ticket?.isKept() ?? false
    return .with { $0.notKept = !isKept }
  }

  private func assist(
    _ request: Connectivity_V1_SetAssistRequest, _ peer: PeerCredentials
  ) async throws -> Connectivity_V1_SetAssistResponse {
    try self.rate.admit(peer)
    try await self.authority.check(peer)
    guard
      case .set(_, let ticket) = try await self.answer(
        .assist(try request.request(of: peer.uid)), peer)
    else { return Connectivity_V1_SetAssistResponse() }
    let isKept = await ticket?.isKept() ?? false
    return .with { $0.notKept = !isKept }
  }

  private func answer(
    _ request: CostRequest, _ peer: PeerCredentials
  ) async throws -> CostRequest.Answer {
    switch try await self.queries.change(for: peer, { .costs(request, $0) }) {
    case .success(let answer): return answer
    case .failure(.notFound(let reason)): throw RPCError(code: .notFound, message: reason)
    case .failure(.invalid(let reason)): throw RPCError(code: .invalidArgument, message: reason)
    case .failure(.full(let reason)): throw RPCError(code: .resourceExhausted, message: reason)
    case .failure(.kernel(let error)):
      throw RPCError(code: .unavailable, message: "the kernel cannot be asked: \(error)")
    }
  }
}

extension CostRequest.ListedNetwork {
  /// Returns the sort key in a list. Current networks come first, and links last.
  fileprivate func key(at place: Int) -> String {
    if self.current != nil { return "0" + PageRequest.key(UInt64(place)) }
    return switch self.subject {
    case .network(let hash): "1\(hash)"
    case .link(let name): "2\(name)"
    case .machine: "3"
    }
  }
}

extension Connectivity_V1_SetCostRequest {
  /// - Throws: INVALID_ARGUMENT that names the field.
  fileprivate func request(of user: UInt32) throws(RPCError) -> CostRequest.CostOverrideRequest {
    func invalid(_ words: String) -> RPCError { RPCError(code: .invalidArgument, message: words) }
    let target: CostRequest.Target
    switch self.target {
    case .link(let name):
      guard ResolvConf.isLinkName(name, orAlternative: true) else {
        throw invalid("link: “\(name)” is not a link name")
      }
      target = .link(name)
    case .network(let name):
      guard !name.isEmpty, name.utf8.count <= 256 else {
        throw invalid("network: must have 1 to 256 bytes")
      }
      target = .network(name)
    case nil: throw invalid("target: set a link or a network")
    }
    let constrained = self.hasConstrained ? try self.constrained.value(of: "constrained") : nil
    let expensive = self.hasExpensive ? try self.expensive.value(of: "expensive") : nil
    guard constrained != nil || expensive != nil else {
      throw invalid("set constrained, expensive or both")
    }
    var end: CostRequest.End?
    switch self.end {
    case .duration(let message): end = try CostRequest.End(message)
    case .atBoot(true): end = .boot
    case .whenLeft(true):
      guard case .network = target else { throw invalid("when_left: requires a network") }
      end = .left
    case .atBoot, .whenLeft, nil: break
    }
    return CostRequest.CostOverrideRequest(
      target: target, constrained: constrained, expensive: expensive, end: end, user: user)
  }

}

extension Connectivity_V1_SetAssistRequest {
  /// - Throws: INVALID_ARGUMENT that names the field.
  fileprivate func request(of user: UInt32) throws(RPCError) -> CostRequest.AssistRequest {
    guard let value = try self.assist.value(of: "assist") else {
      throw RPCError(code: .invalidArgument, message: "assist: set it to on, off or auto")
    }
    var end: CostRequest.End?
    switch self.end {
    case .duration(let message): end = try CostRequest.End(message)
    case .atBoot(true): end = .boot
    case .atBoot(false), nil: break
    }
    return CostRequest.AssistRequest(value: value, end: end, user: user)
  }
}

extension CostRequest.End {
  private static let maxDuration = Duration.seconds(UInt32.max)

  /// - Throws: INVALID_ARGUMENT for an invalid duration.
  fileprivate init(_ message: Google_Protobuf_Duration) throws(RPCError) {
    let duration = Duration(message)
    guard duration > .zero, duration <= Self.maxDuration else {
      throw RPCError(
        code: .invalidArgument,
        message: "duration: must be greater than 0 and at most \(UInt32.max) seconds")
    }
    self = .after(duration)
  }
}

extension Connectivity_V1_Choice {
  /// Returns the value of a field, or `nil` if it is not specified.
  ///
  /// - Throws: INVALID_ARGUMENT for an unknown value.
  fileprivate func value(of field: String) throws(RPCError) -> CostRequest.Value? {
    switch self {
    case .on: return .on
    case .off: return .off
    case .auto: return .auto
    case .unspecified: return nil
    case .UNRECOGNIZED(let number):
      throw RPCError(code: .invalidArgument, message: "\(field): \(number) is not a choice")
    }
  }
}
