import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import Synchronization
import Testing

@testable import ConnectivityMonitor

/// The events of a follower, until no task takes them any more.
private func follow(_ socket: String, kinds: Set<StatusEvent.Kind> = []) -> Handoff<StatusEvent> {
  let events = Handoff<StatusEvent>()
  Task(executorPreference: connector.executor) {
    try? await StatusFollower(socket: socket, through: connector, kinds: kinds).run {
      try await events.send($0)
    }
    events.finish()
  }
  return events
}

@Suite("Following connd")
struct StatusFollowerTests {
  @Test("a restart is reported, and the stream continues after the last generation")
  func resume() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let events = follow(socket, kinds: [.transition])
      guard case .disconnected(let why)? = await events.next(), why.code == .notAvailable else {
        Issue.record("connd is not there yet")
        return
      }
      let first = StubConnd { request, writer in
        #expect(!request.hasSinceGeneration)
        #expect(request.events == [.transition])
        try await writer.write(.snapshot(.sample))
        await Gate().pass()
      }
      try await first.serving(socket) {
        #expect(await events.next() == .resumed(after: nil))
        #expect(await events.next() == .snapshot(.sample))
      }
      let lost = await events.next()
      guard case .disconnected(let why)? = lost, why.code == .notAvailable else {
        Issue.record("the first connd is gone, and not: \(String(describing: lost))")
        return
      }
      let second = StubConnd { request, writer in
        #expect(request.sinceGeneration == 17)
        try await writer.write(Connectivity_V1_WatchResponse(.transition(.sample)))
        await Gate().pass()
      }
      try await second.serving(socket) {
        #expect(await events.next() == .resumed(after: 17))
        #expect(await events.next() == .change(.transition(.sample)))
      }
    }
  }

  @Test("cancelling the task ends the stream")
  func cancellation() async throws {
    try await withDirectory { directory in
      let events = follow("\(directory)/connd.sock")
      let task = Task {
        var count = 0
        while await events.next() != nil { count += 1 }
        return count
      }
      task.cancel()
      #expect(await task.value <= 1)
    }
  }

  @Test("texts of socket errors")
  func probe() throws {
    #expect(
      throws: ConndError.failed(
        "\(String(repeating: "x", count: 108)) is too long for a Unix socket's path")
    ) {
      _ = try SocketProbe.connection(to: String(repeating: "x", count: 108))
    }
    #expect(
      SocketProbe.error(13, "/x")
        == .refused(
          "/x: Permission denied (join the group of the socket, or of its directory, or ask as root)"
        ))
    #expect(SocketProbe.error(111, "/x") == .notAvailable("no process listens on /x"))
    #expect(SocketProbe.error(2, "/x") == .notAvailable("there is no /x"))
    #expect(SocketProbe.error(24, "/x") == .failed("/x: Too many open files"))
  }
}

@Suite("Stream progress")
struct ProgressTests {
  @Test("an outage is reported once, pauses grow to a minute, and a message resets them")
  func pauses() throws {
    var progress = FollowedStatus(since: nil)
    let error = ConndError.notAvailable("gone")
    #expect(progress.lost(error).0 == .disconnected(error))
    let pauses = (0..<10).map { _ in progress.lost(error) }
    #expect(pauses.allSatisfy { $0.0 == nil })
    #expect(
      pauses.map(\.pause) == [
        .milliseconds(200), .milliseconds(400), .milliseconds(800),
        .milliseconds(1_600), .milliseconds(3_200), .milliseconds(6_400), .milliseconds(12_800),
        .milliseconds(25_600), .milliseconds(51_200), .seconds(60),
      ])
    #expect(progress.accepted() == .resumed(after: nil))
    #expect(progress.accepted() == nil)
    #expect(try progress.received(.snapshot(.sample)) == .snapshot(.sample))
    let (event, pause) = progress.lost(error)
    #expect(event == .disconnected(error))
    #expect(pause == .milliseconds(100))
    #expect(progress.accepted() == .resumed(after: 17))
  }

  @Test("an event of a newer connd is skipped, and not requested again")
  func unknownEvent() throws {
    var progress = FollowedStatus(since: 3)
    var message = Connectivity_V1_WatchResponse()
    message.generation = 9
    #expect(try progress.received(message) == nil)
    let request = try Connectivity_V1_WatchRequest(serializedBytes: progress.request)
    #expect(request.sinceGeneration == 9)
    #expect(request.events == [])
  }

  @Test("some kinds of changes are followed → the request names them")
  func kinds() throws {
    let bytes = FollowedStatus(since: nil, [.dns, .path]).request
    let request = try Connectivity_V1_WatchRequest(serializedBytes: bytes)
    #expect(request.events == [.path, .dns])
    #expect(!request.hasSinceGeneration)
  }
}

@Suite("Handing over")
struct HandoffTests {
  @Test("elements arrive in order, each sent after the one before was taken")
  func order() async {
    let handoff = Handoff<Int>()
    async let sent: Void = {
      for number in 0..<100 { try? await handoff.send(number) }
      handoff.finish()
    }()
    var received: [Int] = []
    while let number = await handoff.next() { received.append(number) }
    await sent
    #expect(received == Array(0..<100))
  }

  @Test("sending after the end throws")
  func finished() async {
    let handoff = Handoff<Int>()
    handoff.finish()
    await #expect(throws: CancellationError.self) { try await handoff.send(1) }
    #expect(await handoff.next() == nil)
  }

  @Test("cancelling the receiver frees the sender")
  func receiverCancelled() async {
    let handoff = Handoff<Int>()
    let receiver = Task { await handoff.next() }
    receiver.cancel()
    _ = await receiver.value
    await #expect(throws: CancellationError.self) { try await handoff.send(1) }
  }

  @Test("cancelling the sender frees the receiver")
  func senderCancelled() async {
    let handoff = Handoff<Int>()
    let sender = Task { try await handoff.send(1) }
    sender.cancel()
    _ = await sender.result
    #expect(await handoff.next() == nil)
  }
}
