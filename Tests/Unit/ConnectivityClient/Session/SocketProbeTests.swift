import ConnectivityMonitor
import Glibc
import TestKit
import Testing

@Suite("connd's socket")
struct SocketProbeTests {
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
    let error = #expect(throws: ConndError.self) { _ = try SocketProbe.connection(to: path) }
    #expect(error?.code == .notAvailable)
    #expect(error?.description.hasPrefix("uid 12345 listens on \(path)") == true)
    stranger.signal(SIGKILL)
    try stranger.wait()
  }
}
