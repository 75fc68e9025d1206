import GRPCCore
import Glibc
import Synchronization
import TestKit
import Testing

@testable import UnixTransport

@Suite("gRPC's client over a Unix socket")
struct ClientTests {
  @Test(
    "requests and responses of any size pass, in order", arguments: [0, 1, 5_000, 70_000, 200_000])
  func echo(size: Int) async throws {
    try await TestServer.runOwnClient { client, _ in
      let messages = (0..<20).map { [UInt8](repeating: $0, count: size) }
      let echo = try await client.echo(messages)
      #expect(echo == messages)
    }
  }

  @Test("the server's error ends the call with any text, even after a response")
  func failures() async throws {
    try await TestServer.runOwnClient { client, _ in
      await expect(.aborted, "100 % für Ümläute\n") { try await client.unary(.fail, []) }
      await expect(.dataLoss, "after all") { try await client.stream(.failLate, []) { _ in } }
      await expect(.invalidArgument, "a byte, please") {
        try await client.stream(.count, []) { _ in }
      }
    }
  }

  @Test("a stream of messages is read at the client's pace, and complete")
  func pour() async throws {
    try await TestServer.runOwnClient { client, _ in
      let count = Mutex(0)
      try await client.stream(.pour, []) { _ in count.withLock { $0 += 1 } }
      #expect(count.withLock { $0 } == 200)
    }
  }

  @Test("a cancelled call also ends for the server")
  func cancelling() async throws {
    try await TestServer.runOwnClient { client, admission in
      let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
      let call = Task { try await client.stream(.wait, [1]) { _ in beginning.yield() } }
      for await _ in begun { break }
      call.cancel()
      _ = await call.result
      await admission.untilNoStreams()
    }
  }

  @Test(
    "a single call without gRPC's client reports its acceptance, each response and its end")
  func single() async throws {
    try await TestServer.run(connectedSocket) { socket, admission, reactor, _ in
      let told = Mutex<[String]>([])
      let transport = UnixClientTransport(connected: socket, on: reactor)
      await expect(.unavailable, "over") {
        try await transport.single(.count, [3]) {
          told.withLock { $0.append("accepted") }
        } _: { response in
          told.withLock { $0.append("\(response)") }
        }
      }
      #expect(told.withLock { $0 } == ["accepted", "[0, 1, 2]", "[1, 2]", "[2]"])
      await admission.untilNoStreams()
    }
  }

  @Test(
    "D4 the server closes the connection with a reason → calls end with it",
    arguments: [true, false])
  func farewell(closesAtOnce: Bool) async throws {
    try await ReactorTests.run { reactor in
      var sockets: [CInt] = [0, 0]
      socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &sockets)
      _ = fcntl(sockets[0], F_SETFL, O_NONBLOCK)
      let other = sockets[1]
      // SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM (RFC 9113, 6.8).
      let reason = Array("no more".utf8)
      let frames: [UInt8] =
        [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, UInt8(8 + reason.count), 7, 0, 0, 0, 0, 0]
        + [0, 0, 0, 0, 0, 0, 0, 0xB] + reason
      send(other, frames, frames.count, 0)
      // Then the client cannot send its preface.
      if closesAtOnce { close(other) }
      let transport = UnixClientTransport(connected: sockets[0], on: reactor)
      await expect(.resourceExhausted, "no more") {
        try await transport.single(.count, [3]) {
        } _: { _ in
        }
      }
      if !closesAtOnce { close(other) }
    }
  }

  @Test("the server's process is gone → calls end with UNAVAILABLE")
  func gone() async throws {
    try await ReactorTests.run { reactor in
      var sockets: [CInt] = [0, 0]
      socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &sockets)
      _ = fcntl(sockets[0], F_SETFL, O_NONBLOCK)
      let transport = UnixClientTransport(connected: sockets[0], on: reactor)
      let other = sockets[1]
      reactor.execute { close(other) }
      await expect(.unavailable, "the connection was closed") {
        try await transport.single(.count, [3]) {
        } _: { _ in
        }
      }
    }
  }
}

extension UnixClientTransport {
  /// Makes a call with one request.
  fileprivate func single(
    _ method: MethodDescriptor, _ request: [UInt8], accepted: () async throws -> Void,
    _ take: ([UInt8]) async throws -> Void
  ) async throws {
    try await self.withCall(method) { call in
      try await call.send(request)
      call.finish()
      try await call.receive(accepted, take)
    }
    self.close()
  }
}
