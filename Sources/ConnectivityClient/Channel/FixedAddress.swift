internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix

/// A target with one address. The channel itself resolves names, for each attempt to connect (C2).
struct FixedAddress: ResolvableTarget, Sendable {
  var address: SocketAddress
  /// The resolved name, for the server and for TLS.
  var authority: String?

  /// Returns the address for each query.
  struct Resolver: NameResolverFactory {
    func resolver(for target: FixedAddress) -> NameResolver {
      NameResolver(
        names: RPCAsyncSequence(wrapping: Names(address: target.address)), updateMode: .pull,
        authority: target.authority)
    }
  }

  private struct Names: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let address: SocketAddress

    func makeAsyncIterator() -> Names { self }

    func next() async throws -> NameResolutionResult? { self.result }

    func next(isolation: isolated (any Actor)?) async throws -> NameResolutionResult? {
      self.result
    }

    private var result: NameResolutionResult {
      NameResolutionResult(endpoints: [Endpoint(addresses: [self.address])], serviceConfig: nil)
    }
  }
}
