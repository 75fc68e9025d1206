import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Glibc
import TestKit
import Testing

/// Applications that cancel their tasks.
@Suite("Cancelled calls and channels", .timeLimit(.minutes(5)), .namesWaits)
struct CancellationTests {
  /// gRPC's status, or `cancelled` for Swift's error.
  private func code(_ result: Result<Void, any Error>) -> RPCError.Code? {
    guard case .failure(let error) = result else { return nil }
    return error is CancellationError ? .cancelled : (error as? RPCError)?.code
  }

  @Test(
    "a call is cancelled in any state → it ends, and so does the channel",
    arguments: EndlessCall.State.allCases)
  func call(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      try await endless.run { client in
        let call = Task { try await endless.call(client) }
        try await endless.reached()
        call.cancel()
        let result = await call.result
        #expect(self.code(result) == .cancelled, "\(result)")
      }
    }
  }

  @Test(
    "an application is cancelled while a call is in any state → both end",
    arguments: EndlessCall.State.allCases)
  func application(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      let application = Task { try await endless.run { try await endless.call($0) } }
      try await endless.reached()
      application.cancel()
      let result = await application.result
      #expect(self.code(result) != nil, "\(result)")
    }
  }

  @Test(
    "a client's connections are cancelled while a call is in any state → both end",
    arguments: EndlessCall.State.allCases)
  func connections(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      let client = GRPCClient(transport: try endless.transport())
      let connections = Task { try await client.runConnections() }
      let call = Task { try await endless.call(client) }
      try await endless.reached()
      connections.cancel()
      try await connections.value
      let result = await call.result
      #expect(self.code(result) == .unavailable, "\(result)")
    }
  }

  @Test(
    "applications are cancelled at random moments on the way to a state → all end",
    arguments: EndlessCall.State.allCases)
  func moments(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      var random = SeededGenerator(seed: 7)
      for round in 0..<100 {
        let application = Task { try await endless.run { try await endless.call($0) } }
        for _ in 0..<random.number(0...round * 30) { await Task.yield() }
        application.cancel()
        await #expect(throws: (any Error).self) { try await application.value }
      }
    }
  }

  @Test("thousands of calls are cancelled at random moments → no descriptor or memory leaks")
  func thousands() async {
    // In a process of its own, because other tests open descriptors.
    await #expect(processExitsWith: .success) {
      for state in EndlessCall.State.allCases {
        try await EndlessCall.reaching(state) { endless in
          var random = SeededGenerator(seed: 11)
          func rounds(_ count: Int) async throws {
            for _ in 0..<count {
              let application = Task { try await endless.run { try await endless.call($0) } }
              for _ in 0..<random.number(0...2000) { await Task.yield() }
              application.cancel()
              await #expect(throws: (any Error).self) { try await application.value }
            }
          }
          // The first ones start threads and fill caches.
          try await rounds(50)
          let before = try Footprint()
          try await rounds(300)
          // Connections and tasks end a moment after the application that used them.
          var left = try Footprint()
          let end = ContinuousClock.now + .seconds(20)
          while !left.isWithin(before), .now < end {
            await Task.yield()
            left = try Footprint()
          }
          #expect(left.isWithin(before), "\(state): \(before) → \(left)")
        }
      }
    }
  }
}

/// The descriptors and the memory of this process.
private struct Footprint: CustomStringConvertible {
  var descriptors: Int
  /// The resident memory in bytes.
  var memory: Int

  init() throws {
    var names: [String] = []
    let directory = try #require(opendir("/proc/self/fd"))
    defer { closedir(directory) }
    while let entry = readdir(directory) { names.append("\(entry.pointee.d_ino)") }
    self.descriptors = names.count
    // The second number of statm: the resident pages (proc_pid_statm(5)).
    let file = try #require(fopen("/proc/self/statm", "re"))
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    try #require(fgets(&line, CInt(line.count), file) != nil)
    let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    let numbers = text.split(separator: " ").compactMap { Int($0) }
    self.memory = try #require(numbers.dropFirst().first) * Int(getpagesize())
  }

  /// Whether the process has no more descriptors than before, and at most 10 MiB more memory. 300
  /// channels that leak take about 30 MiB. Guesses: fragments of the heap take less than a third of
  /// that, and the runtime opens at most four descriptors later than in the first calls.
  func isWithin(_ before: Footprint) -> Bool {
    self.descriptors <= before.descriptors + 4 && self.memory < before.memory + (10 << 20)
  }

  var description: String { "\(self.descriptors) descriptors, \(self.memory) bytes" }
}
