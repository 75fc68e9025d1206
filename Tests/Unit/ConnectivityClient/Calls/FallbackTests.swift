import Connectivity
import ConnectivityClient
import GRPCCore
import Synchronization
import Testing

@Suite("Fallback")
struct FallbackTests {
  /// An expensive and constrained network, as the transport would see it.
  private static let path = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 2, name: "wwan0")], medium: .cellular,
    isExpensive: true, constraint: .constrained)

  /// A call over that network.
  private static func call(_ name: String) throws -> String {
    if let refusal = CallSettings.current.access.refusal(of: Self.path) { throw RPCError(refusal) }
    return name
  }

  @Test(
    "C8 the network has one of the given reasons → the small request is sent instead of the large one",
    arguments: [
      ([.expensive], .expensive), ([.constrained], .constrained), ([.cellular], .cellular),
      ([.constrained, .expensive], .constrained), ([.wifi, .expensive], .expensive),
    ] as [(Set<NetworkUnavailableError.Reason>, NetworkUnavailableError.Reason)])
  func refused(
    reasons: Set<NetworkUnavailableError.Reason>, expected: NetworkUnavailableError.Reason
  )
    async throws
  {
    let result = try await withFallback(on: reasons) {
      try Self.call("large")
    } fallback: { reason in
      #expect(reason == expected)
      return try Self.call("small")
    }
    #expect(result == "small")
  }

  @Test(
    "C8 the network has none of the given reasons → the large request is sent",
    arguments: [[], [.wifi], [.wired, .tunnel, .unknown]] as [Set<NetworkUnavailableError.Reason>])
  func allowed(reasons: Set<NetworkUnavailableError.Reason>) async throws {
    let result = try await withFallback(on: reasons) {
      try Self.call("large")
    } fallback: { _ in
      try Self.call("small")
    }
    #expect(result == "large")
  }

  @Test("C8 only the first request is restricted, and it keeps earlier restrictions")
  func settings() async throws {
    let before = NetworkAccess(allowsConstrainedAccess: false, prohibitedMedia: [.bluetooth])
    let seen = try await withCallSettings {
      $0.access = before
    } operation: {
      try await withFallback(on: [.expensive, .wifi]) {
        #expect(
          CallSettings.current.access
            == NetworkAccess(
              allowsExpensiveAccess: false, allowsConstrainedAccess: false,
              prohibitedMedia: [.bluetooth, .wifi]))
        throw RPCError(NetworkUnavailableError(reason: .expensive, path: Self.path))
      } fallback: { _ in
        CallSettings.current.access
      }
    }
    #expect(seen == before)
    #expect(CallSettings.current.access == .unrestricted)
  }

  @Test("C8 each medium can be a reason", arguments: NetworkMedium.allCases)
  func media(medium: NetworkMedium) async throws {
    let access = try await withFallback(on: [.init(medium)]) {
      CallSettings.current.access
    } fallback: { _ in
      .unrestricted
    }
    #expect(access == NetworkAccess(prohibitedMedia: [medium]))
  }

  private static let refusal = NetworkUnavailableError(reason: .expensive, path: Self.path)
  private static let invalidation = InvalidationError(
    reason: .policy, severity: .destroy, cause: ChangeCause(.route, "routeAdded"), path: nil,
    networkUnavailableReason: .expensive)

  @Test(
    "C8 the reason is found inside other errors",
    arguments: [
      refusal, RPCError(refusal), invalidation,
      RPCError(code: .unavailable, message: "", cause: invalidation),
      RPCError(code: .unavailable, message: "", cause: RPCError(refusal)),
      RPCError(code: .internalError, message: "", cause: RPCError(refusal)),
      RuntimeError(code: .transportError, message: "", cause: RPCError(refusal)),
      Wrapped(rpcErrorCause: RPCError(refusal)),
    ] as [any Error])
  func wrapped(error: any Error) async throws {
    let result = try await withFallback(on: [.expensive]) {
      throw error
    } fallback: { reason in
      reason
    }
    #expect(result == .expensive)
  }

  @Test(
    "C8 any other error passes unchanged, and no fallback is sent",
    arguments: [
      RPCError(code: .unavailable, message: "gone"), Wrapped(rpcErrorCause: nil),
      CancellationError(), SelfCaused(),
      // Refused for another reason than the given ones.
      RPCError(NetworkUnavailableError(reason: .cellular, path: path)),
      RPCError(
        code: .unavailable, message: "",
        cause: InvalidationError(
          reason: .interfaceLost, severity: .destroy, cause: ChangeCause(.link, "carrierLost"),
          path: nil)),
    ] as [any Error])
  func otherErrors(error: any Error) async {
    let thrown = await #expect(throws: (any Error).self) {
      try await withFallback(on: [.expensive, .constrained]) {
        throw error
      } fallback: { _ in
        Issue.record("the fallback ran")
      }
    }
    #expect(thrown.map { "\($0)" } == "\(error)")
  }

  @Test("C8 the fallback's error is thrown")
  func fallbackFails() async {
    await expectCode(.notFound) {
      try await withFallback(on: [.expensive]) {
        throw Self.refusal
      } fallback: { _ in
        throw RPCError(code: .notFound, message: "no small one either")
      }
    }
  }

  @Test("C8 a cancelled task sends no fallback")
  func cancelled() async {
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      try await withFallback(on: [.expensive]) {
        throw RPCError(Self.refusal)
      } fallback: { _ in
        _ = Issue.record("the fallback ran")
      }
    }
    await expectCode(.unavailable) { try await task.value }
  }

  @Test("C8 neither results nor captured values need to be Sendable")
  @MainActor
  func isolation() async throws {
    final class Local { var count = 0 }
    let local = Local()
    let result = try await withFallback(on: [.expensive]) {
      local.count += 1
      throw Self.refusal
    } fallback: { _ -> Local in
      local.count += 1
      return local
    }
    #expect(result.count == 2)
  }
}

/// An application's own error.
private struct Wrapped: Error, RPCErrorConvertible {
  var rpcErrorCode: RPCError.Code { .unavailable }
  var rpcErrorMessage: String { "wrapped" }
  var rpcErrorCause: (any Error)?
}

/// By gRPC's default, such an error is its own cause.
private struct SelfCaused: Error, RPCErrorConvertible {
  var rpcErrorCode: RPCError.Code { .unavailable }
  var rpcErrorMessage: String { "itself" }
}
