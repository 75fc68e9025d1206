import GRPCCore
import GRPCNIOTransportHTTP2Posix
import TestKit
import Testing

@Suite("The echo server of the tests", .timeLimit(.minutes(5)), .namesWaits)
struct EchoServerTests {
  private struct Failure: Error {}

  @Test("a test fails while clients connect and call → the server ends, and NIO does not trap")
  func failing() async throws {
    let directory = try TemporaryDirectory()
    let socket = "\(directory.path)/echo.sock"
    for _ in 0..<10 {
      await withTaskGroup(of: Void.self) { clients in
        for _ in 0..<4 {
          clients.addTask {
            while !Task.isCancelled {
              try? await withChannel(to: .unixDomainSocket(path: socket)) { client, _ in
                for _ in 0..<3 { _ = try await client.echo() }
              }
            }
          }
        }
        await #expect(throws: Failure.self) {
          try await EchoServer.serving(at: .unixDomainSocket(path: socket)) { _, record in
            try await record.reach(8)
            throw Failure()
          }
        }
        clients.cancelAll()
      }
    }
  }
}
