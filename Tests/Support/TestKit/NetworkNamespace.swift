import CLinux
import Glibc
import Synchronization

/// A test's own network namespace, with its loopback link up. `close()`, or the end of the last
/// reference, removes it.
///
/// It has a name for use with `ip netns exec`, which mounts a sysfs with this namespace's links.
public final class NetworkNamespace: Sendable {
  public let name: String
  private let isOpen = Mutex(true)

  /// Why this process cannot create namespaces, or `nil` if it can.
  public static let obstacle: String? = {
    do {
      removeOrphans()
      try NetworkNamespace().close()
      return nil
    } catch {
      return "\(error)"
    }
  }()

  /// Whether tests that need a namespace run. With CI=true they run and fail instead of being
  /// skipped.
  public static var isEnabled: Bool {
    getenv("CI").map { String(cString: $0) } == "true" || self.obstacle == nil
  }

  private static let count = Atomic<Int>(0)
  /// `ip netns add` creates a missing /run/netns, which two processes must not do together.
  private static let adding = Mutex(())

  public init() throws {
    let number = Self.count.add(1, ordering: .relaxed).newValue
    let name = "connd-\(getpid())-\(number)"
    self.name = name
    _ = try Self.adding.withLock { _ in try Command.run(["ip", "netns", "add", name]) }
    try self.run("ip", "link", "set", "lo", "up")
  }

  deinit { self.close() }

  /// Removes the name. The namespace itself ends with the last process and socket in it.
  public func close() {
    let wasOpen = self.isOpen.withLock { isOpen in
      defer { isOpen = false }
      return isOpen
    }
    if wasOpen { _ = try? Command.run(["ip", "netns", "del", self.name]) }
  }

  /// Removes namespaces of killed test runs.
  private static func removeOrphans() {
    for name in (try? Command.run(["ls", "/run/netns"]))?.split(separator: "\n") ?? [] {
      let parts = name.split(separator: "-")
      guard parts.count == 3, parts[0] == "connd", let process = pid_t(parts[1]) else { continue }
      if kill(process, 0) != 0 && errno == ESRCH {
        _ = try? Command.run(["ip", "netns", "del", String(name)])
      }
    }
  }

  /// The command that runs these arguments in the namespace.
  public func wrapped(_ arguments: [String]) -> [String] {
    // ip enters a namespace by itself, without the cost of mounting a sysfs.
    arguments.first == "ip"
      ? ["ip", "-n", self.name] + arguments.dropFirst()
      : ["ip", "netns", "exec", self.name] + arguments
  }

  /// Runs a program in the namespace, to its end; see `Command.run`.
  @discardableResult
  public func run(_ arguments: String...) throws -> String {
    try Command.run(self.wrapped(arguments))
  }

  /// Runs `ip` with these words, separated by spaces.
  @discardableResult
  public func ip(_ words: String) throws -> String {
    try Command.run(self.wrapped(["ip"] + words.split(separator: " ").map(String.init)))
  }

  /// Runs one `ip` for many lines, for hundreds or thousands of changes.
  public func ipBatch(_ lines: [String]) throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    let name = try directory.write(lines.joined(separator: "\n") + "\n", to: "batch")
    try self.run("ip", "-batch", name)
  }

  /// Starts a program in the namespace that runs beside the test.
  public func spawn(
    _ arguments: [String], environment: [String: String] = [:]
  ) throws -> RunningCommand {
    try RunningCommand(self.wrapped(arguments), environment: environment)
  }

  /// Calls `body` on a thread in the namespace, and waits. Sockets opened there stay in the
  /// namespace, and can be used from any thread afterwards.
  public func perform<Result>(_ body: () throws -> Result) throws -> Result {
    let namespace = open("/run/netns/\(self.name)", O_RDONLY | O_CLOEXEC)
    guard namespace >= 0 else { throw CommandError("\(self.name): errno \(errno)") }
    defer { Glibc.close(namespace) }
    return try withoutActuallyEscaping(body) { body in
      var result: Swift.Result<Result, any Error> = .failure(CommandError("never ran"))
      try withUnsafeMutablePointer(to: &result) { result in
        nonisolated(unsafe) let body = body
        nonisolated(unsafe) let result = result
        try onThread {
          guard clinux_enter_network_namespace(namespace) == 0 else {
            result.pointee = .failure(CommandError("setns: errno \(errno)"))
            return
          }
          result.pointee = Swift.Result { try body() }
        }
      }
      return try result.get()
    }
  }
}

/// Calls `body` on a new thread, which then ends: setns(2) must not change a pool's thread.
private func onThread(_ body: @escaping () -> Void) throws {
  final class Box {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  let context = Unmanaged.passRetained(Box(body))
  let result = pthread_create(
    &thread, nil,
    { context in
      guard let context else { return nil }
      Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
      return nil
    }, context.toOpaque())
  guard result == 0 else {
    context.release()
    throw CommandError("pthread_create: errno \(result)")
  }
  pthread_join(thread, nil)
}
