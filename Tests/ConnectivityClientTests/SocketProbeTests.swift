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
