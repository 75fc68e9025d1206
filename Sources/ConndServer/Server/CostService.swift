import Connectivity
import ConnectivityProtocol
import GRPCCore
import SwiftProtobuf
import UnixTransport

/// The calls of `connectivity.v1.Connectivity` that change and list users' cost overrides.
struct CostService {
  let authority: CostAuthorization
  private let rate = ChangeRate()
  /// Sends a request to the monitor thread.
  private let ask:
    @Sendable (CostRequest, _ caller: PeerCredentials) async throws
      -> Result<CostRequest.Answer, CostRequest.Refusal>

  init(
    authority: CostAuthorization,
    ask:
      @escaping @Sendable (CostRequest, _ caller: PeerCredentials) async throws
      -> Result<CostRequest.Answer, CostRequest.Refusal>
  ) {
    self.authority = authority
    self.ask = ask
  }

  func set(
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

  func list(
    _ request: Connectivity_V1_ListNetworksRequest, _ peer: PeerCredentials
  ) async throws -> Connectivity_V1_ListNetworksResponse {
    guard case .list(let networks) = try await self.answer(.list, peer) else {
      return Connectivity_V1_ListNetworksResponse()
    }
    return .with { $0.networks = networks.map { Connectivity_V1_Network($0) } }
  }

  func forget(
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

  private func answer(
    _ request: CostRequest, _ peer: PeerCredentials
  ) async throws -> CostRequest.Answer {
    switch try await self.ask(request, peer) {
    case .success(let answer): return answer
    case .failure(.notFound(let words)): throw RPCError(code: .notFound, message: words)
    case .failure(.invalid(let words)): throw RPCError(code: .invalidArgument, message: words)
    case .failure(.full(let words)): throw RPCError(code: .resourceExhausted, message: words)
    case .failure(.kernel(let error)):
      throw RPCError(code: .unavailable, message: "the kernel cannot be asked: \(error)")
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
    let (constrained, expensive) = (self.constrained.value, self.expensive.value)
    guard constrained != nil || expensive != nil else {
      throw invalid("set constrained, expensive or both")
    }
    var end: CostRequest.End?
    switch self.end {
    case .seconds(let seconds):
      guard seconds > 0 else { throw invalid("seconds: must be greater than 0") }
      end = .after(.seconds(seconds))
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

extension Connectivity_V1_Choice {
  /// `nil` if the field is not set.
  fileprivate var value: CostRequest.Value? {
    switch self {
    case .on: .on
    case .off: .off
    case .auto: .auto
    case .unspecified, .UNRECOGNIZED: nil
    }
  }
}
