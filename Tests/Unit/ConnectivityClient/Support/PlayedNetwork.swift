import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Testing

/// Runs `body` with a client of a server, on a network that begins as Wi-Fi, with a stopped clock.
func playingNetwork(
  _ change: (inout NetworkAwareTransport.Config) -> Void = { _ in },
  _ body:
    @escaping @Sendable (
      SimulatedNetwork, GRPCClient<NetworkAwareTransport>, NetworkAwareTransport,
      EchoServer.Record
    ) async throws -> Void
) async throws {
  var config = NetworkAwareTransport.Config.defaults
  change(&config)
  try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { [config] network in
    try await EchoServer.serving { port, record in
      var config = config
      config.socket = network.socket
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        try await body(network, $0, $1, record)
      }
    }
  }
}

/// A call that the server never answers, once the server has received it.
func hangingCall(
  _ client: GRPCClient<NetworkAwareTransport>, _ record: EchoServer.Record,
  sourceLocation: SourceLocation = #_sourceLocation
) async throws -> Task<RPCError?, any Error> {
  let before = record.calls.count
  let call = Task { try await failure { try await client.echo(EchoServer.hang) } }
  try await record.reach(before + 1, sourceLocation: sourceLocation)
  return call
}
