import Connectivity
import ConnectivityProtocol
import Dispatch
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ConnectivityMonitor

@Suite("The connection to connd that a process shares", .timeLimit(.minutes(5)), .namesWaits)
struct SharedConnectionTests {
  fileprivate static let wifi = PathSample.status(PathSample.wifi)
  fileprivate static let cellular = PathSample.status(PathSample.cellular)

  @Test("C7 all threads of NIO are blocked → a monitor continues")
  func blocked() async throws {
    // In a process of its own, because other tests use these threads.
    await #expect(processExitsWith: .success) {
      try await PathConnd.withSocket { socket in
        try await PathConnd.serving(socket) { connd in
          var paths = PathMonitor(.system, socket: socket, maxWait: longPatience)
            .makeAsyncIterator()
          let call = try #require(await connd.watches.next())
          call.send(.snapshot(17, SharedConnectionTests.wifi))
          #expect(await paths.next() == NetworkPath(SharedConnectionTests.wifi))
          let (blocks, blocked) = AsyncStream.makeStream(of: Void.self)
          let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
          for loop in loops {
            loop.execute {
              blocked.yield()
              DispatchSemaphore(value: 0).wait()
            }
          }
          for await _ in blocks.prefix(loops.count) {}
          call.send(.path(18, SharedConnectionTests.cellular))
          #expect(await paths.next() == NetworkPath(SharedConnectionTests.cellular))
        }
      }
    }
  }

  @Test("D4 a stream's reader does not read → a monitor on the same connection continues")
  func slow() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        var events = StatusStream(socket: socket).makeAsyncIterator()
        let slow = try #require(await connd.watches.next())
        slow.send(.snapshot(1, Self.wifi))
        #expect(await events.next() == .snapshot(PathSample.snapshot(1, Self.wifi)))
        // Much more than the windows of a stream and of a connection, 64 kB each.
        for generation in UInt64(2)..<5_000 { slow.send(.path(generation, Self.wifi)) }
        var paths = PathMonitor(.system, socket: socket, maxWait: longPatience)
          .makeAsyncIterator()
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
        call.send(.path(18, Self.cellular))
        #expect(await paths.next() == NetworkPath(Self.cellular))
        #expect(connd.connections.withLock(\.count) == 1)
        #expect(await events.next() == .change(.path(PathSample.change(2, Self.wifi))))
      }
    }
  }
}
