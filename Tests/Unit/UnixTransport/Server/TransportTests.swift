import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Glibc
import Synchronization
import TestKit
import Testing

@testable import UnixTransport

@Suite("gRPC over a Unix socket, to grpc-swift's own client")
struct TransportTests {
  @Test("a call gets its answer, and the caller is identified by the kernel")
  func unary() async throws {
    try await TestServer.run { client, _ in
      let answer = try await client.unary(.who, [])
      #expect(String(decoding: answer, as: UTF8.self) == "\(getuid()) \(getpid())")
    }
  }

  @Test(
    "requests and responses of any size pass, in order", arguments: [0, 1, 5_000, 70_000, 200_000])
  func echo(size: Int) async throws {
    try await TestServer.run { client, _ in
      let messages = (0..<20).map { [UInt8](repeating: $0, count: size) }
      let echo = try await client.echo(messages)
      #expect(echo == messages)
    }
  }

  @Test("many concurrent calls each get their own answers")
  func many() async throws {
    try await TestServer.run { client, _ in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<100 {
          group.addTask {
            let messages = (0..<10).map { [UInt8(number), $0] }
            let echo = try await client.echo(messages)
            #expect(echo == messages)
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test("the handler's error ends the call with any text, even after a response")
  func failures() async throws {
    try await TestServer.run { client, _ in
      await expect(.aborted, "100 % für Ümläute\n") {
        try await client.unary(.fail, [])
      }
      await expect(.dataLoss, "after all") {
        try await client.stream(.failLate, []) { _ in }
      }
      await #expect(throws: RPCError.self) {
        try await client.unary(MethodDescriptor(fullyQualifiedService: "t.T", method: "None"), [])
      }
    }
  }

  @Test("a request that is too long is refused, and the connection continues")
  func tooLong() async throws {
    try await TestServer.run { client, admission in
      await expect(.resourceExhausted, "too long") {
        try await client.unary(.who, [UInt8](repeating: 0, count: 300_001))
      }
      #expect(admission.refusedMessages == 1)
      let echo = try await client.echo([[1]])
      #expect(echo == [[1]])
    }
  }

  @Test("an error that quotes a long request still ends the call")
  func longMessage() async throws {
    try await TestServer.run { client, _ in
      let error = await #expect(throws: RPCError.self) {
        try await client.unary(.quote, [UInt8](repeating: 0, count: 200_000))
      }
      #expect(error?.code == .invalidArgument)
    }
  }

  @Test("a call that is not admitted gets the reason, and the connection continues")
  func notAdmitted() async throws {
    try await TestServer.run { client, admission in
      admission.refusesStreams = true
      await expect(.resourceExhausted, "no more") {
        try await client.unary(.who, [])
      }
      admission.refusesStreams = false
      let echo = try await client.echo([[1]])
      #expect(echo == [[1]])
    }
  }

  @Test(
    "D4 a request or an answer exceeds the available memory → the call ends, and no memory stays reserved"
  )
  func noMemory() async throws {
    try await TestServer.run { client, admission in
      admission.mostMemory = 100_000
      await expect(.resourceExhausted, "no memory") {
        try await client.unary(.who, [UInt8](repeating: 0, count: 200_000))
      }
      // As much as a call may keep without asking.
      let echo = try await client.echo([[UInt8](repeating: 1, count: 1000)])
      #expect(echo.count == 1)
      admission.mostMemory = 0
      await expect(.resourceExhausted, "no memory") {
        try await client.stream(.pour, []) { _ in }
      }
      #expect(admission.memory == 0)
    }
  }

  @Test("a source's messages are sent as they come, and its end is the call's")
  func source() async throws {
    try await TestServer.run { client, _ in
      let seen = Mutex<[[UInt8]]>([])
      await expect(.unavailable, "over") {
        try await client.stream(.count, [5]) { message in seen.withLock { $0.append(message) } }
      }
      #expect(seen.withLock { $0 } == (0..<5).map { [UInt8]($0..<5) })
      await expect(.invalidArgument, "a byte, please") {
        try await client.stream(.count, []) { _ in }
      }
    }
  }

  @Test("a client's cancellation ends the handler, the source and frees their memory")
  func cancelling() async throws {
    try await TestServer.run { client, admission in
      for method: MethodDescriptor in [.wait, .silence] {
        let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
        let call = Task {
          try await client.stream(method, [1]) { _ in beginning.yield() }
        }
        for await _ in begun { break }
        #expect(admission.streams == 1)
        call.cancel()
        _ = await call.result
        await admission.untilNoStreams()
      }
    }
  }

  @Test(
    "D2 the server is closed → a call ends with its status, and its handler is not awaited",
    .timeLimit(.minutes(1)))
  func closing() async throws {
    defer { TestServer.ignored.open() }
    try await TestServer.run(connectedSocket) { socket, _, reactor, server in
      try await TestClient.run(UnixClientTransport(connected: socket, on: reactor)) { client in
        await expect(.unavailable, "closed by a test") {
          try await client.stream(.ignore, []) { _ in
            server.close(Status(code: .unavailable, message: "closed by a test"))
          }
        }
      }
    }
  }

  @Test("the client does not read → the writing task waits, and everything arrives in the end")
  func backpressure() async throws {
    try await TestServer.run { client, _ in
      let count = Mutex(0)
      try await client.stream(.pour, []) { message in
        #expect(message.count == 10_000)
        count.withLock { $0 += 1 }
      }
      #expect(count.withLock { $0 } == 200)
    }
  }
}

/// Expects that the call fails with this error.
func expect<Success>(
  _ code: RPCError.Code, _ message: String, _ call: () async throws -> Success
) async {
  let error = await #expect(throws: RPCError.self) { _ = try await call() }
  #expect(error?.code == code)
  #expect(error?.message == message)
}
