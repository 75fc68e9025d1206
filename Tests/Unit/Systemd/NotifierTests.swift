import Glibc
import Synchronization
import Testing

@testable import Systemd

/// A notifier's reported failures.
private final class Failures: Sendable {
  private let errors = Mutex<[SystemdError]>([])
  var numbers: [Int32] { self.errors.withLock { $0.map(\.errno) } }
  func append(_ error: SystemdError) { self.errors.withLock { $0.append(error) } }
}

struct NotifierTests {
  private func notifier(for receiver: DatagramReceiver) throws -> Notifier {
    Notifier(
      socket: try NotifySocket(name: receiver.name), watchdogTimeout: nil,
      onFailure: { Issue.record("\($0)") })
  }

  @Test(
    "D1 every notification has the form of sd_notify(3)",
    arguments: DatagramReceiver.Namespace.allCases)
  func notifications(namespace: DatagramReceiver.Namespace) throws {
    let receiver = try DatagramReceiver(namespace)
    let notifier = try self.notifier(for: receiver)

    notifier.ready(status: "wifi by wlan0, 0 subscribers")
    #expect(receiver.next() == "READY=1\nSTATUS=wifi by wlan0, 0 subscribers")
    notifier.ready()
    #expect(receiver.next() == "READY=1")
    notifier.status("none")
    #expect(receiver.next() == "STATUS=none")
    notifier.watchdog()
    #expect(receiver.next() == "WATCHDOG=1")
    notifier.reloaded(status: "wired by eth0")
    #expect(receiver.next() == "READY=1\nSTATUS=wired by eth0")
    notifier.failed(errno: ENOENT, status: "no configuration")
    #expect(receiver.next() == "ERRNO=2\nSTATUS=no configuration")
    notifier.stopping()
    #expect(receiver.next() == "STOPPING=1")
    #expect(receiver.next() == nil)
  }

  @Test("D1 a reload has the monotonic time of its beginning")
  func reloading() throws {
    let receiver = try DatagramReceiver(.abstract)
    let before = Self.monotonicMicroseconds()
    try self.notifier(for: receiver).reloading()
    let after = Self.monotonicMicroseconds()

    let lines = try #require(receiver.next()).split(separator: "\n")
    #expect(lines.count == 2)
    #expect(lines.first == "RELOADING=1")
    let time = try #require(lines.last)
    #expect(time.hasPrefix("MONOTONIC_USEC="))
    let microseconds = try #require(Int64(time.dropFirst("MONOTONIC_USEC=".count)))
    #expect((before...after).contains(microseconds))
  }

  private static func monotonicMicroseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1000
  }

  @Test("a status is one line, whatever its text")
  func statusCannotAssign() throws {
    let receiver = try DatagramReceiver(.abstract)
    try self.notifier(for: receiver).status("wired by eth0\nMAINPID=1")
    #expect(receiver.next() == "STATUS=wired by eth0?MAINPID=1")
  }

  @Test("without a service manager nothing happens")
  func inactive() {
    #expect(!Notifier.inactive.isActive)
    #expect(Notifier.inactive.watchdogInterval == nil)
    Notifier.inactive.ready(status: "nobody listens")
  }

  @Test(
    "a name that is not a Unix socket's is refused",
    arguments: [
      ("vsock:2:1234", EAFNOSUPPORT), ("relative", EAFNOSUPPORT), ("@", EAFNOSUPPORT),
      ("/" + String(repeating: "x", count: 200), ENAMETOOLONG),
    ])
  func refusedNames(name: String, errno: Int32) {
    #expect(throws: SystemdError("NOTIFY_SOCKET=\(name)", errno: errno)) {
      _ = try NotifySocket(name: name)
    }
  }

  @Test("a missing manager is reported, each time")
  func managerGone() throws {
    let failures = Failures()
    var receiver: DatagramReceiver? = try DatagramReceiver(.path)
    let name = try #require(receiver?.name)
    let notifier = Notifier(
      socket: try NotifySocket(name: name), watchdogTimeout: nil,
      onFailure: failures.append)
    receiver = nil

    notifier.watchdog()
    notifier.ready()
    #expect(failures.numbers == [ENOENT, ENOENT])
  }

  @Test("status and watchdog do not wait for a manager that does not read")
  func fullQueue() throws {
    let failures = Failures()
    let receiver = try DatagramReceiver(.abstract)
    let notifier = Notifier(
      socket: try NotifySocket(name: receiver.name), watchdogTimeout: nil,
      onFailure: failures.append)

    // Linux queues at most net.unix.max_dgram_qlen datagrams; a blocking send would never return.
    while failures.numbers.isEmpty { notifier.watchdog() }
    notifier.status("not heard")
    #expect(failures.numbers == [EAGAIN, EAGAIN])
    #expect(receiver.next() == "WATCHDOG=1")
  }

  @Test("D1 the environment gives the socket and the watchdog's timeout")
  func environment() async {
    // The environment belongs to the process, so each of these tests has its own process.
    await #expect(processExitsWith: .success) {
      let receiver = try DatagramReceiver(.path)
      setenv("NOTIFY_SOCKET", receiver.name, 1)
      setenv("WATCHDOG_USEC", "3000000", 1)
      setenv("WATCHDOG_PID", "\(getpid())", 1)
      let notifier = Notifier.fromEnvironment(onFailure: { Issue.record("\($0)") })
      #expect(notifier.isActive)
      #expect(notifier.watchdogTimeout == .seconds(3))
      #expect(notifier.watchdogInterval == .milliseconds(1500))
      notifier.ready()
      #expect(receiver.next() == "READY=1")
    }
  }

  @Test("a watchdog of another process is ignored")
  func watchdogOfAnotherProcess() async {
    await #expect(processExitsWith: .success) {
      let receiver = try DatagramReceiver(.abstract)
      setenv("NOTIFY_SOCKET", receiver.name, 1)
      setenv("WATCHDOG_USEC", "3000000", 1)
      setenv("WATCHDOG_PID", "\(getppid())", 1)
      let notifier = Notifier.fromEnvironment(onFailure: { Issue.record("\($0)") })
      #expect(notifier.isActive)
      #expect(notifier.watchdogTimeout == nil)
    }
  }

  @Test("a missing or invalid NOTIFY_SOCKET leaves the notifier inactive")
  func uselessEnvironment() async {
    await #expect(processExitsWith: .success) {
      unsetenv("NOTIFY_SOCKET")
      #expect(!Notifier.fromEnvironment(onFailure: { Issue.record("\($0)") }).isActive)
      setenv("NOTIFY_SOCKET", "nonsense", 1)
      let failures = Failures()
      let notifier = Notifier.fromEnvironment(onFailure: failures.append)
      #expect(!notifier.isActive)
      #expect(failures.numbers == [EAFNOSUPPORT])
    }
  }
}
