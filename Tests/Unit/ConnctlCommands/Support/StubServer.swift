import GRPCCore
import Glibc
import LinuxSupport

@testable import UnixTransport

/// Serves on a Unix socket with connd's own transport, on a thread that all stubs share.
enum StubServer {
  private static let reactor = Result { try Reactor.onNewThread(named: "stub-connd") }

  /// Runs `body` while the services are available at the socket, and then disconnects all clients.
  static func serving<Success: Sendable>(
    _ services: [any RegistrableRPCService], at socket: String,
    _ body: @Sendable () async throws -> Success
  ) async throws -> Success {
    let reactor = try Self.reactor.get()
    let listener = try Self.listen(socket)
    let transport = UnixServerTransport(
      listeningOn: listener, streaming: [:],
      settings: .init(streamsPerConnection: 200, messageSize: 1 << 20), admission: Everyone(),
      on: reactor)
    let server = GRPCServer(transport: transport, services: services)
    let serving = Task(executorPreference: reactor) { try await server.serve() }
    await transport.listening()
    let result: Result<Success, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    // Disconnected clients reconnect immediately, so the socket is removed first.
    unlink(socket)
    serving.cancel()
    _ = await serving.result
    return try result.get()
  }

  private static func listen(_ path: String) throws -> CInt {
    let socket = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard withUnixAddress(path, { bind(socket, $0, $1) }) == 0, Glibc.listen(socket, 100) == 0
    else { throw SystemError() }
    return socket
  }

  /// Admits every client.
  private struct Everyone: Admission {
    func admit(_ amount: Int, of resource: LimitedResource, by peer: PeerCredentials) {}
    func release(_ amount: Int, of resource: LimitedResource, by peer: PeerCredentials) {}
    func refuseMessage(of peer: PeerCredentials, maxLength: Int) -> Refusal { Refusal("too long") }
    func account(ofUID uid: UInt32) -> Account { Account(ofUID: uid) }
    func connectionFailed(of peer: PeerCredentials, _ error: UInt32) {}
    func acceptFailed(_ error: SystemError) {}
    func accepted() {}
  }
}
