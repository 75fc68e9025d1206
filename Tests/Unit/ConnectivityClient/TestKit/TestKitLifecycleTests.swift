import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityTestKit
import GRPCCore
import Glibc
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Test kit: connd stops and starts", .timeLimit(.minutes(5)), .namesWaits)
struct TestKitLifecycleTests {
  @Test("C7 connd stops and starts → flows are registered again, and none is destroyed")
  func restart() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      await network.stop()
      #expect(!network.isRunning)
      #expect(await flows.nextLine() == "disconnected")
      #expect(network.guardedFlows == [])
      try await network.start()
      #expect(await flows.nextLine() == "resumed")
      #expect(await flows.nextLine() == "1 path wlan0")
      #expect(network.snapshot.generation == 1)
    }
  }

  @Test("I7 a change while connd was away is reported as learnt late")
  func learntLate() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      try await network.play("stop, cellular, start")
      #expect(await flows.nextLine() == "disconnected")
      #expect(await flows.nextLine() == "resumed")
      guard case .flow(1, _, .invalidation(let invalidation))? = await flows.next() else {
        Issue.record("the flow died")
        return
      }
      #expect(invalidation.severity == .destroy)
      #expect(invalidation.cause.learntLate)
      guard case .transition(let transition)? = network.history.dropFirst().first else {
        Issue.record("the transition is published")
        return
      }
      #expect(transition.to == .cellular)
      #expect(transition.cause.learntLate)
      #expect(transition.snapshot.generation == 2)
    }
  }

  @Test("a connected client gets UNAVAILABLE when connd stops")
  func unavailable() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let events = Task { try await watched(network, 2) }
      try await network.waitForSubscribers(atLeast: 1)
      await network.stop()
      let error = await #expect(throws: RPCError.self) { try await events.value }
      #expect(error?.code == .unavailable)
    }
  }

  @Test("C7 connd stops while clients connect and call → their calls end, and NIO does not trap")
  func busy() async throws {
    var options = CallOptions.defaults
    options.timeout = .seconds(1)
    for _ in 0..<10 {
      try await withSimulatedNetwork(.wifi) { network in
        let (answers, answer) = AsyncStream.makeStream(of: Void.self)
        await withTaskGroup(of: Void.self) { clients in
          for _ in 0..<4 {
            clients.addTask { [options] in
              while network.isRunning {
                try? await withConnd(at: network.socket) { connd in
                  for _ in 0..<3 {
                    _ = try await connd.unary(
                      ConndMethod.GetStatus.self, .init(),
                      options: options)
                  }
                }
                answer.yield()
              }
            }
          }
          for await _ in answers.prefix(8) {}
          await network.stop()
        }
      }
    }
  }

  @Test("waiting for flows that never come ends with its task")
  func waiting() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let waiting = Task { try await network.waitForFlows(atLeast: 1) }
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
    }
  }

  @Test("waiting for flows returns when they come")
  func waited() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      async let waiting: Void = network.waitForFlows(atLeast: 2)
      _ = await flows.add("127.0.0.1", id: 1)
      _ = await flows.add("127.0.0.1", id: 2)
      try await waiting
      #expect(network.guardedFlows.count == 2)
    }
  }

  @Test("streams that clients give up are known to be closed")
  func closed() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      var flows: FlowGuard? = FlowGuard(socket: network.socket)
      _ = await flows?.add("127.0.0.1")
      #expect(network.openStreams == 1)
      flows = nil
      try await network.waitForNoStreams()
      #expect(network.guardedFlows == [])
    }
  }

  @Test("two networks are independent of each other")
  func two() async throws {
    try await withSimulatedNetwork(.wifi) { first in
      try await withSimulatedNetwork(.wired) { second in
        first.become(.none)
        let lines = [try await watched(first, 1), try await watched(second, 1)]
        #expect(lines == [["4 snapshot none"], ["1 snapshot wired"]])
      }
    }
  }

  @Test("nothing is left: no socket, no directory, no descriptor, no thread")
  func nothingIsLeft() async throws {
    await #expect(processExitsWith: .success) {
      // Swift's timer keeps a descriptor once it is used. On a busy machine a pause may end before
      // it needs the timer.
      while try !hasTimer() { try await Task.sleep(for: .milliseconds(1), clock: .continuous) }
      // The first use creates the threads that the process keeps: NIO's own, and Swift's.
      _ = try await useNetwork()
      let before = try resources()
      for _ in 0..<3 {
        let socket = try await useNetwork()
        #expect(access(socket, F_OK) != 0)
        let directory = socket.split(separator: "/").dropLast().joined(separator: "/")
        #expect(access("/\(directory)", F_OK) != 0)
      }
      // A joined thread may stay in /proc for a moment; three uses would leave more than one.
      let end = ContinuousClock.now + .seconds(20)
      while try resources().threads > before.threads, .now < end { await Task.yield() }
      let left = try resources()
      #expect(left.threads <= before.threads)
      #expect(left.descriptors == before.descriptors)
    }
  }

  @Test("a network whose body throws is taken down as well")
  func throwing() async throws {
    let kept = await #expect(throws: KeptSocket.self) {
      try await withSimulatedNetwork(.wifi) { throw KeptSocket(path: $0.socket.path) }
    }
    #expect(access(try #require(kept).path, F_OK) != 0)
  }
}

private struct KeptSocket: Error {
  var path: String
}

/// Uses a network as a test does, with clients that are still connected at its end.
///
/// - Returns: The path of its socket.
private func useNetwork() async throws -> String {
  try await withSimulatedNetwork(.wifi) { network in
    try await withConnd(at: network.socket) { connd in
      try await connd.serverStreaming(ConndMethod.Watch.self, .init()) { response in
        var messages = response.messages.makeAsyncIterator()
        _ = try await messages.next()
        // The pause uses Swift's timer. The process keeps the timer's descriptor.
        try await network.play("none, 2 s, stop, start, cellular", speed: 1000)
      }
    }
    return network.socket.path
  }
}

/// Whether the process has a timer of the continuous clock (timerfd_create(2)), as proc(5) shows.
private func hasTimer() throws -> Bool {
  try entries("/proc/self/fdinfo").contains { name in
    guard let file = fopen("/proc/self/fdinfo/\(name)", "re") else { return false }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    while fgets(&line, CInt(line.count), file) != nil {
      if strcmp(line, "clockid: \(CLOCK_BOOTTIME)\n") == 0 { return true }
    }
    return false
  }
}

/// The number of the process's descriptors and NIO threads.
private func resources() throws -> (descriptors: Int, threads: Int) {
  let threads = try entries("/proc/self/task").filter { thread in
    guard let file = fopen("/proc/self/task/\(thread)/comm", "re") else { return false }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 32)
    return fgets(&line, CInt(line.count), file) != nil
      && String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        .hasPrefix("NIO")
  }
  return (try entries("/proc/self/fd").count, threads.count)
}

/// The names in a directory.
private func entries(_ path: String) throws -> [String] {
  guard let directory = opendir(path) else { throw TestKitError("\(path): errno \(errno)") }
  defer { closedir(directory) }
  var names: [String] = []
  while let entry = readdir(directory) {
    names.append(
      withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      })
  }
  return names.filter { !$0.hasPrefix(".") }
}
