import Glibc
import NIOCore
import NIOPosix
import Synchronization
import TestKit
import Testing

@testable import ConnectivityClient
@testable import ConnectivitySession

@Suite("connd's reason for closing a connection")
struct SocketProbeTests {
  private static let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]

  private func goAway(_ error: UInt8, _ reason: String) -> [UInt8] {
    [0, 0, UInt8(8 + reason.utf8.count), 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, error]
      + Array(reason.utf8)
  }

  @Test("the reason is that of GOAWAY with ENHANCE_YOUR_CALM, wherever it stands")
  func reason() {
    let farewell = Self.settings + self.goAway(0xB, "no more")
    #expect(SocketProbe.reason(in: farewell[...]) == "no more")
    #expect(SocketProbe.reason(in: Self.settings[...]) == nil)
    #expect(SocketProbe.reason(in: self.goAway(0, "bye")[...]) == nil)
    #expect(SocketProbe.reason(in: self.goAway(0xB, "")[...]) == nil)
  }

  @Test("D8 every truncation gives no reason")
  func truncations() {
    let farewell = Self.settings + self.goAway(0xB, "no more")
    for count in 0..<farewell.count { #expect(SocketProbe.reason(in: farewell[..<count]) == nil) }
    #expect(SocketProbe.reason(in: Array(repeating: 0xFF, count: 4096)[...]) == nil)
  }

  @Test("no server listens → no reason")
  func nobody() async {
    #expect(SocketProbe.farewell(from: "/nonexistent/connd.sock") == nil)
    let reason = await NIODialler().farewell(of: "/nonexistent/connd.sock")
    #expect(reason == nil)
  }

  @Test(
    "another user listens in root's directory → the client library does not ask it",
    .enabled(if: geteuid() == 0, "needs root"))
  func stranger() throws {
    let directory = try TemporaryDirectory()
    try Command.run(["chmod", "777", directory.path])
    let path = "\(directory.path)/connd.sock"
    let listen = """
      import os, signal, socket, sys
      listener = socket.socket(socket.AF_UNIX)
      listener.bind(sys.argv[1])
      os.chmod(sys.argv[1], 0o777)
      listener.listen()
      print("ready", flush=True)
      signal.pause()
      """
    let stranger = try RunningCommand([
      "setpriv", "--reuid=12345", "--clear-groups", "/usr/bin/python3", "-c", listen, path,
    ])
    #expect(try stranger.nextLine() == "ready", "\(stranger.standardError)")
    let error = #expect(throws: ConndError.self) { try SocketProbe.connect(to: path) }
    guard case .notThere(let reason)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(reason.hasPrefix("uid 12345 listens on \(path)"))
    stranger.signal(SIGKILL)
    try stranger.wait()
  }

  @Test(
    "D7 an application's event loop continues while connd is silent, as when systemd holds its socket"
  )
  func blocksNobody() async throws {
    let directory = try TemporaryDirectory()
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.autoRead, value: false)
      .bind(unixDomainSocketPath: "\(directory.path)/connd.sock").get()
    let order = Mutex<[String]>([])
    async let asking: Void = {
      // Longer than any slow machine takes.
      let reason = await NIODialler().farewell(
        of: "\(directory.path)/connd.sock", within: .seconds(600))
      #expect(reason == nil)
      order.withLock { $0.append("asked") }
    }()
    for _ in 0..<100 {
      try await ClientThread.eventLoop.submit {}.get()
    }
    order.withLock { $0.append("loop") }
    try await server.close()
    await asking
    #expect(order.withLock { $0 } == ["loop", "asked"])
  }
}
