import CLinux
import Glibc
import TestKit
import Testing

@testable import LinuxSupport

@Suite("The process that opened a connection")
struct PeerProcessTests {
  @Test(
    "it has exited → it is not alive, even if another process holds its socket",
    arguments: [true, false])
  func exits(isRemembered: Bool) throws {
    guard PeerProcess.isRemembered || !isRemembered else { return }
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/socket"
    let listener = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(listener) }
    #expect(withUnixAddress(path, { bind(listener, $0, $1) }) == 0 && listen(listener, 1) == 0)
    let opener = try RunningCommand([
      "/usr/bin/python3", "-c",
      """
      import socket, os, sys, signal
      connection = socket.socket(socket.AF_UNIX)
      connection.connect(sys.argv[1])
      if os.fork() == 0:
          connection.recv(1)  # until the test closes its end
          os._exit(0)
      print(flush=True)
      signal.pause()
      """, path,
    ])
    let connection = accept(listener, nil, nil)
    try #require(connection >= 0, "\(errno)")
    defer { close(connection) }
    try #require(try opener.nextLine() != nil, "\(opener.standardError)")
    let process = PeerProcess(
      of: connection, pid: opener.processIdentifier, isRemembered: isRemembered)
    let before = process.open()
    #expect(before?.isAlive == true)
    opener.signal(SIGKILL)
    try opener.wait()
    #expect(before?.isAlive == false)
    #expect(process.open()?.isAlive != true)
    process.forget()
    #expect(process.open() == nil)
  }

  @Test("a pid without a process → no process")
  func none() {
    #expect(ProcessReference(getpid())?.isAlive == true)
    #expect(ProcessReference(.max) == nil && ProcessReference(0) == nil)
  }
}
