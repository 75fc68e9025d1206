import Connectivity
import ConnectivityClient
import GRPCCore
import NIOCore
import NIOPosix
import SwiftProtobuf
import Synchronization

/// Calls on channels of one kind, controlled by lines of standard input.
final class Calls<Transport: ClientTransport>: Sendable {
  private let clients: [GRPCClient<Transport>]
  private let transport: @Sendable (_ channel: Int) throws -> Transport
  /// The messages to send on open streams.
  private let streams = Mutex<[String: AsyncStream<String>.Continuation]>([:])

  /// - Parameter transport: Makes a transport for a channel.
  init(_ channels: Int, _ transport: @escaping @Sendable (_ channel: Int) throws -> Transport)
    throws
  {
    self.transport = transport
    self.clients = try (0..<channels).map { channel in
      GRPCClient(transport: try transport(channel), interceptors: [Opening(channel: channel)])
    }
  }

  /// Returns when the input has ended, with all calls and connections.
  func run() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for client in self.clients { group.addTask { try await client.runConnections() } }
      // Uses a thread that may block.
      while let line = try await NIOSingletons.posixBlockingThreadPool.runIfActive({ readLine() }) {
        let words = line.split(separator: " ").map(String.init)
        if words == ["quit"] { break }
        if words == ["shutdown"] {
          for client in self.clients { client.beginGracefulShutdown() }
          while let result = await group.nextResult() { _ = result }
          return
        }
        if words.first == "sync", let id = words.last {
          report("synced", ["id": id])
        } else if words.count >= 3, let channel = Int(words[1]), let id = words.last {
          self.obey(words, channel, id, in: &group)
        }
      }
      for client in self.clients { client.beginGracefulShutdown() }
      group.cancelAll()
      while let result = await group.nextResult() { _ = result }
    }
  }

  private func obey(
    _ words: [String], _ channel: Int, _ id: String,
    in group: inout ThrowingTaskGroup<Void, any Error>
  ) {
    switch words[0] {
    case "start":
      let kind = words[2]
      group.addTask {
        await self.told(channel, id, kind) { try await self.open(kind, channel, id) }
      }
    case "quick":
      group.addTask {
        await self.told(channel, id, "quick") { try await self.unary("Get", "\(id)", channel, id) }
      }
    case "series":
      let (count, interval) = (Int(words[2]) ?? 0, Duration.milliseconds(Int(words[3]) ?? 0))
      group.addTask { await self.series(channel, count, every: interval, id) }
    case "abandon":
      let count = Int(words[2]) ?? 0
      group.addTask { await self.abandon(channel, count, id) }
    case "spare":
      group.addTask {
        await self.told(channel, id, "spare") {
          try await withFallback(on: [.expensive]) {
            try await self.unary("Get", "\(id)", channel, id)
          } fallback: { reason in
            reason.rawValue
          }
        }
      }
    case "write":
      self.streams.withLock { _ = $0[id]?.yield("more") }
    case "finish":
      let stream = self.streams.withLock { $0.removeValue(forKey: id) }
      if let stream { return stream.finish() }
      group.addTask {
        _ = try? await self.unary("Release", id, channel, "release of \(id)")
      }
    default:
      report("error", channel: channel, ["message": words.joined(separator: " ")])
    }
  }

  /// Reports the call's beginning and end.
  private func told(
    _ channel: Int, _ id: String, _ kind: String, _ call: () async throws -> String
  ) async {
    report("started", channel: channel, ["id": id, "kind": kind])
    do {
      let answer = try await call()
      report("ended", channel: channel, ["id": id, "kind": kind, "code": "ok", "message": answer])
    } catch {
      let failure = error as? RPCError
      report(
        "ended", channel: channel,
        [
          "id": id, "kind": kind, "code": failure.map { "\($0.code)" } ?? "other",
          "reason": failure?.invalidation?.reason.rawValue,
          "message": failure?.message ?? "\(error)",
        ])
    }
  }

  /// Starts quick calls at an interval, whether or not the earlier ones have ended.
  private func series(
    _ channel: Int, _ count: Int, every interval: Duration, _ id: String
  ) async {
    let start = ContinuousClock.now
    await withTaskGroup { calls in
      for number in 0..<count {
        try? await Task.sleep(until: start + interval * number, clock: .continuous)
        let id = "\(id)-\(number)"
        calls.addTask {
          await self.told(channel, id, "quick") { try await self.unary("Get", id, channel, id) }
        }
      }
    }
  }

  /// Makes applications one after the other, each with a client and a call, and cancels each after
  /// up to 50 ms.
  private func abandon(_ channel: Int, _ count: Int, _ id: String) async {
    for number in 0..<count {
      let application = Task {
        try await withGRPCClient(transport: try self.transport(channel)) { client in
          _ = try await AnyServiceClient(client).call(
            Self.method("Get"), Text(id), metadata: Self.metadata("\(id)-\(number)"),
            returning: Text.self)
        }
      }
      try? await Task.sleep(for: .microseconds(Int.random(in: 0...50_000)))
      application.cancel()
      _ = await application.result
    }
    report("abandoned", channel: channel, ["id": id])
  }

  // MARK: The kinds of calls

  private func unary(
    _ method: String, _ text: String, _ channel: Int, _ id: String
  ) async throws -> String {
    try await AnyServiceClient(self.clients[channel]).call(
      Self.method(method), Text(text), metadata: Self.metadata(id), returning: Text.self
    ).value
  }

  /// A call that stays open.
  ///
  /// - Returns: The last message.
  private func open(_ kind: String, _ channel: Int, _ id: String) async throws -> String {
    let client = AnyServiceClient(self.clients[channel])
    switch kind {
    case "client":
      let texts = self.stream(id)
      return try await client.call(
        Self.method("Collect"), metadata: Self.metadata(id), returning: Text.self
      ) { writer in
        for await text in texts { try await writer.write(Text(text)) }
      } onResponse: { response in
        try await response.messages.reduce("") { $1.value }
      }
    case "server":
      return try await client.call(
        Self.method("Expand"), metadata: Self.metadata(id)
      ) { writer in
        try await writer.write(Text("first"))
      } onResponse: { response in
        try await Self.read(response, channel, id)
      }
    case "bidi":
      let texts = self.stream(id)
      return try await client.call(
        Self.method("Update"), metadata: Self.metadata(id)
      ) { writer in
        for await text in texts { try await writer.write(Text(text)) }
      } onResponse: { response in
        try await Self.read(response, channel, id)
      }
    default:
      return try await self.unary("Hang", id, channel, id)
    }
  }

  private static func method(_ name: String) -> MethodDescriptor {
    MethodDescriptor(fullyQualifiedService: "echo.Echo", method: name)
  }

  private static func read(
    _ response: StreamingClientResponse<Text>, _ channel: Int, _ id: String
  ) async throws -> String {
    var last = ""
    for try await message in response.messages {
      last = message.value
      report("message", channel: channel, ["id": id, "message": last])
    }
    return last
  }

  /// The messages of a request, beginning with one that exists already.
  private func stream(_ id: String) -> AsyncStream<String> {
    let (texts, continuation) = AsyncStream.makeStream(of: String.self)
    continuation.yield("first")
    self.streams.withLock { $0[id] = continuation }
    return texts
  }

  private static func metadata(_ id: String) -> Metadata {
    var metadata = Metadata()
    metadata.addString(id, forKey: callID)
    return metadata
  }
}

/// Reports when the server has accepted a call, and on which connection.
private struct Opening: ClientInterceptor {
  var channel: Int

  func intercept<Input: Sendable, Output: Sendable>(
    request: StreamingClientRequest<Input>, context: ClientContext,
    next: (StreamingClientRequest<Input>, ClientContext) async throws ->
      StreamingClientResponse<Output>
  ) async throws -> StreamingClientResponse<Output> {
    let response = try await next(request, context)
    if case .success = response.accepted {
      let id = request.metadata[stringValues: callID].first { _ in true }
      report(
        "open", channel: self.channel,
        ["id": id, "local": context.localPeer, "remote": context.remotePeer])
    }
    return response
  }
}
