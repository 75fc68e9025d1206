import AsyncHTTPClient
import ConnectivityClient
import ConnectivityTestKit
import Glibc
import NIOCore
import Snippets
import Testing

/// Guards the connections of async-http-client, whose hook for new connections accepts a handler.
@Suite("async-http-client", .timeLimit(.minutes(2)))
struct HTTPClientTests {
  /// An application's configuration, with the socket of a simulated network.
  private func configuration(_ network: SimulatedNetwork) -> HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration()
    configuration.guardConnections(.defaults { $0.socket = network.socket })
    // Only the caller may repeat a request.
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }

  @Test("C10 a request in flight ends with its network, and the next one takes another connection")
  func request() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      try await HTTPServer.serving { url, connections in
        try await HTTPClient.withHTTPClient(configuration: self.configuration(network)) { client in
          let first = try await client.get("\(url)/hello")
          #expect(first == "hello")
          let hanging = Task { try await client.get("\(url)/hang") }
          // On the same connection, which is guarded.
          await connections.requests(2)
          try await network.waitForFlows(atLeast: 1)
          network.become(.cellular)
          await #expect(throws: InvalidationError.self) { try await hanging.value }
          let next = try await client.get("\(url)/hello")
          #expect(next == "hello")
          #expect(connections.count == 2)
        }
      }
    }
  }

  @Test("C10 an attempt to connect gets no answer → the request ends within the limit, not sent")
  func silence() async throws {
    let silence = try FullListener()
    defer { withExtendedLifetime(silence) {} }
    let port = silence.port
    try await withSimulatedNetwork(.wifi) { network in
      try await HTTPClient.withHTTPClient(configuration: self.configuration(network)) { client in
        let start = ContinuousClock.now
        let error = await #expect(throws: HTTPClientError.self) {
          try await client.get("http://127.0.0.1:\(port)/hello")
        }
        #expect(error == .connectTimeout)
        #expect(start.duration(to: .now) < .seconds(9))
      }
    }
  }
}

extension HTTPClient {
  fileprivate func get(_ url: String) async throws -> String {
    let response = try await self.execute(HTTPClientRequest(url: url), timeout: .minutes(1))
    return String(buffer: try await response.body.collect(upTo: 100))
  }

  fileprivate static func withHTTPClient(
    configuration: Configuration, _ body: (HTTPClient) async throws -> Void
  ) async throws {
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    do {
      try await body(client)
    } catch {
      try? await client.shutdown()
      throw error
    }
    try await client.shutdown()
  }
}

/// A listener with a full backlog. The kernel drops further SYNs.
private final class FullListener {
  let port: UInt16
  private var descriptors: [CInt] = []

  init() throws {
    func make() throws -> CInt {
      let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
      return try #require(descriptor >= 0 ? descriptor : nil)
    }
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let listener = try make()
    let connections = try (0..<4).map { _ in try make() }
    withUnsafeMutablePointer(to: &name) { name in
      name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        _ = bind(listener, name, length)
        _ = listen(listener, 0)
        _ = getsockname(listener, name, &length)
        for connection in connections { _ = connect(connection, name, length) }
      }
    }
    self.port = UInt16(bigEndian: name.sin_port)
    self.descriptors = [listener] + connections
  }

  deinit { for descriptor in self.descriptors { close(descriptor) } }
}
