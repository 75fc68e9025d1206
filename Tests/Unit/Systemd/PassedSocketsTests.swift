import Glibc
import TestKit
import Testing

@testable import Systemd

struct PassedSocketsTests {
  @Test("a descriptor's kind is read from the socket, not from its name")
  func kinds() throws {
    func kind(
      _ domain: Int32, _ type: __socket_type, _ protocol: Int32, listening path: String? = nil
    ) -> PassedSockets.Kind {
      let descriptor = socket(domain, Int32(type.rawValue), `protocol`)
      defer { close(descriptor) }
      if let path { Self.listen(descriptor, at: path) }
      return PassedSockets.kind(of: descriptor)
    }
    let path = "/tmp/connd-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    defer { unlink(path) }

    #expect(kind(AF_UNIX, SOCK_STREAM, 0, listening: path) == .unixListener(path: path))
    #expect(kind(AF_UNIX, SOCK_STREAM, 0) == .other)
    #expect(kind(AF_UNIX, SOCK_DGRAM, 0) == .other)
    #expect(kind(AF_INET, SOCK_STREAM, 0) == .other)
    #expect(kind(AF_NETLINK, SOCK_RAW, 0) == .netlinkRoute)
    #expect(kind(AF_NETLINK, SOCK_RAW, 15) == .other)  // NETLINK_KOBJECT_UEVENT
    #expect(PassedSockets.kind(of: -1) == .other)
  }

  /// Makes the descriptor listen.
  private static func listen(_ descriptor: Int32, at path: String) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    #expect(bound == 0 && Glibc.listen(descriptor, 1) == 0)
  }

  @Test("D2 sockets are taken once, by name and kind, and close on exec")
  func takes() throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    let path = "\(directory.path)/socket"
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(listener) }
    Self.listen(listener, at: path)
    let netlink = socket(AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(netlink) }
    // The shell's process becomes the program's.
    let command = try RunningCommand(
      ["sh", "-c", "export LISTEN_PID=$$; exec \"$0\"", "\(buildDirectory)/passedsockets"],
      environment: ["LISTEN_FDS": "2", "LISTEN_FDNAMES": "connd.socket:events"],
      passing: [listener, netlink])
    let lines = try command.remainingOutput().split(separator: "\n").map(String.init)
    #expect(
      lines == [
        "connd.socket 3 \(PassedSockets.Kind.unixListener(path: path)) closes on exec",
        "events 4 \(PassedSockets.Kind.netlinkRoute) closes on exec",
        "listener 3", "netlink 4", "a second time 0", "variables 0",
      ])
    #expect(try command.wait() == 0, "\(command.standardError)")
  }

  @Test("D2 sockets for another process, or none, are not taken")
  func otherProcess() async {
    await #expect(processExitsWith: .success) {
      let nothing = try PassedSockets.take()
      #expect(nothing == .none)
      setenv("LISTEN_PID", "\(getppid())", 1)
      setenv("LISTEN_FDS", "1", 1)
      let foreign = try PassedSockets.take()
      #expect(foreign == .none)
    }
  }

  @Test("D2 a count that is not a number is an error")
  func nonsense() async {
    await #expect(processExitsWith: .success) {
      setenv("LISTEN_PID", "\(getpid())", 1)
      setenv("LISTEN_FDS", "many", 1)
      #expect(throws: SystemdError("LISTEN_FDS", errno: EINVAL)) { try PassedSockets.take() }
    }
  }
}
