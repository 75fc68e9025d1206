import Glibc
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

  /// Makes a listener of `descriptor`.
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

  /// What does not hold of `sockets` that are passed as the descriptors 3 and 4, as systemd passes them.
  private static func faults(_ sockets: [Int32], path: String) -> [String] {
    // Those numbers may be among the sockets themselves.
    for (number, source) in sockets.map({ fcntl($0, F_DUPFD_CLOEXEC, 100) }).enumerated() {
      dup2(source, Int32(number) + 3)
    }
    setenv("LISTEN_PID", "\(getpid())", 1)
    setenv("LISTEN_FDS", "\(sockets.count)", 1)
    setenv("LISTEN_FDNAMES", "connd.socket:events", 1)
    let passed = try? PassedSockets.take()
    let checks: [(String, Bool)] = [
      (
        "names and kinds",
        passed?.sockets == [
          .init(name: "connd.socket", descriptor: 3, kind: .unixListener(path: path)),
          .init(name: "events", descriptor: 4, kind: .netlinkRoute),
        ]
      ), ("the listener", passed?.unixListener?.descriptor == 3),
      ("the netlink socket", passed?.netlinkRoute?.descriptor == 4),
      ("close on exec", [3, 4].allSatisfy { fcntl($0, F_GETFD) == FD_CLOEXEC }),
      ("a second time", (try? PassedSockets.take()) == PassedSockets.none),
      (
        "the environment",
        ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].allSatisfy { (name: String) in
          getenv(name) == nil
        }
      ),
    ]
    return checks.filter { !$0.1 }.map(\.0)
  }

  @Test("D2 sockets are taken once, by name and kind, and close on exec")
  func takes() async {
    await #expect(processExitsWith: .success) {
      let path = "/tmp/connd-test-\(getpid())"
      let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      PassedSocketsTests.listen(listener, at: path)
      defer { unlink(path) }
      let netlink = socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 0)
      // libdispatch has an epoll(7) of its own at one of these numbers, and traps where it is taken away. After fork(2), which
      // Swift hides, this thread is the only one.
      let fork = try #require(dlsym(nil, "fork"))
      let child = unsafeBitCast(fork, to: (@convention(c) () -> pid_t).self)()
      if child == 0 {
        let faults = PassedSocketsTests.faults([listener, netlink], path: path)
        for fault in faults { perror(fault) }
        _exit(faults.isEmpty ? 0 : 1)
      }
      var status: Int32 = -1
      #expect(waitpid(child, &status, 0) == child)
      #expect(status == 0)
    }
  }

  @Test("D2 sockets for another process, or none, are nobody's")
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

  @Test("D2 a count that is no number is an error")
  func nonsense() async {
    await #expect(processExitsWith: .success) {
      setenv("LISTEN_PID", "\(getpid())", 1)
      setenv("LISTEN_FDS", "many", 1)
      #expect(throws: SystemdError("LISTEN_FDS", errno: EINVAL)) { try PassedSockets.take() }
    }
  }
}
