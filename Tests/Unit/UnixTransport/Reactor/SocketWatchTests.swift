import Glibc
import TestKit
import Testing

@testable import UnixTransport

@Suite("C7 Waiting for a socket", .timeLimit(.minutes(5)))
struct SocketWatchTests {
  private let reactor: Reactor
  private let directory: TemporaryDirectory
  /// In a directory that does not exist yet.
  private var socket: String { "\(self.directory.path)/a/b/connd.sock" }

  init() throws {
    self.reactor = try Reactor.onNewThread(named: "test")
    self.directory = try TemporaryDirectory()
  }

  /// Sleeps for an hour, or until the socket appears. Calls `onWatch` once the socket is watched.
  private func sleep(onWatch: @escaping @Sendable () -> Void) async throws -> Bool {
    try await self.reactor.sleep(
      for: .seconds(3600), orUntilSocketAppears: self.socket, limit: .zero
    ) {
      onWatch()
      return true
    }
  }

  @Test("the socket's directories appear one by one → each ends a sleep, and so does the socket")
  func appears() async throws {
    let (directory, socket) = (self.directory.path, self.socket)
    let steps: [@Sendable () -> Void] = [
      { mkdir("\(directory)/a", 0o755) }, { mkdir("\(directory)/a/b", 0o755) },
      { close(open(socket, O_CREAT | O_CLOEXEC, 0o600)) }, { chmod(socket, 0o666) },
      { rename(socket, "\(directory)/moved") }, { rename("\(directory)/moved", socket) },
    ]
    for (number, step) in steps.enumerated() where number != 4 {
      if number == 5 { steps[4]() }
      #expect(try await self.sleep(onWatch: step), "step \(number)")
    }
  }

  @Test("another file appears, or nothing → the sleep ends after its time")
  func others() async throws {
    let directory = self.directory.path
    mkdir("\(directory)/a", 0o755)
    let hasAppeared = try await self.reactor.sleep(
      for: .milliseconds(100), orUntilSocketAppears: self.socket, limit: .zero
    ) {
      mkdir("\(directory)/a/other", 0o755)
      return true
    }
    #expect(!hasAppeared)
  }

  @Test("a process listens on the socket, or it cannot be watched → at most the limit")
  func limited() async throws {
    for path in [self.socket, "\(self.directory.path)/file/x/connd.sock"] {
      close(open("\(self.directory.path)/file", O_CREAT | O_CLOEXEC, 0o600))
      let hasAppeared = try await self.reactor.sleep(
        for: .seconds(3600), orUntilSocketAppears: path, limit: .milliseconds(1)
      ) { false }
      #expect(!hasAppeared)
    }
  }

  @Test("the sleep is cancelled → it ends, and the socket is no longer watched")
  func cancelled() async {
    let (watching, watched) = AsyncStream.makeStream(of: Void.self)
    let sleeping = Task { try await self.sleep { watched.finish() } }
    for await _ in watching {}
    sleeping.cancel()
    await #expect(throws: CancellationError.self) { try await sleeping.value }
    await withCheckedContinuation { continuation in
      self.reactor.execute {
        #expect(!self.reactor.sockets.isWatching)
        continuation.resume()
      }
    }
  }
}
