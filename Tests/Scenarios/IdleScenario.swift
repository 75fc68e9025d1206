import Glibc
import TestKit
import TestTraits
import Testing

@Suite("Idle", .needsNamespaces, .blocking)
struct IdleScenario {
  @Test("D7 an idle connd with a subscriber waits in every thread, without a timeout or a timer")
  func idle() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()
    let process = try #require(lab.connd).processIdentifier
    // Threads that only the start needed end by themselves after some seconds.
    try waitUntil("nothing is due: \(Self.due(process))", within: .seconds(60)) {
      Self.due(process).isEmpty
    }
  }

  @Test("D7 an application's guarded connections are idle → the library's thread waits for events")
  func idleLibrary() throws {
    let bench = try CallBench(["eth0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let calls = try client.open(CallBench.far)
    let process = client.command.processIdentifier
    let thread = try #require(
      Self.entries(of: "/proc/\(process)/task").first {
        Self.contents(of: "/proc/\(process)/task/\($0)/comm") == "connd-client\n"
      })
    let call = "/proc/\(process)/task/\(thread)/syscall"
    // Timeouts of the calls' beginnings pass within seconds.
    try waitUntil("the thread waits for events: \(Self.contents(of: call))", within: .seconds(60)) {
      Self.waitsForever(Self.contents(of: call))
    }
    try client.quit()
    try server.end()
    withExtendedLifetime(calls) {}
  }

  @Test(
    "D7 R6 connctl guards a command, also after it ended a connection → it only waits for events")
  func idleGuard() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.start()
    let server = try lab.startEcho()
    let program = ReaperScenario.program(["idle"])
    let connctl = try lab.namespace.spawn(
      [Programs.connctl, "--socket", lab.socket, "run", "--when", "online", "--stop", "--guard"]
        + ["--", "sh", "-c", #""$@"; exec "$@""#, ""] + program)
    func isIdle() throws {
      try connctl.line(within: .seconds(30)) { $0.hasPrefix("open") }
      let process = connctl.processIdentifier
      try waitUntil("nothing is due: \(Self.due(process))", within: .seconds(30)) {
        Self.due(process).isEmpty
      }
    }
    try isIdle()
    try lab.unplug("eth0")
    try lab.namespace.ip("route del default dev eth0")
    try isIdle()
    withExtendedLifetime(server) {}
  }

  /// Whatever will wake the process within a minute although nothing happens.
  static func due(_ process: pid_t) -> [String] {
    let threads = entries(of: "/proc/\(process)/task").compactMap { thread -> String? in
      let call = contents(of: "/proc/\(process)/task/\(thread)/syscall")
      return waitsForever(call) ? nil : "thread \(thread): \(call)"
    }
    let timers = entries(of: "/proc/\(process)/fdinfo").compactMap { descriptor -> String? in
      let lines = contents(of: "/proc/\(process)/fdinfo/\(descriptor)").split(separator: "\n")
      guard let value = lines.first(where: { $0.hasPrefix("it_value:") }) else { return nil }
      let seconds = value.drop { !$0.isNumber }.prefix { $0.isNumber }
      // gRPC's keepalive pings after two hours; a timer that is not armed shows (0, 0).
      let isArmed = !value.contains("(0, 0)")
      return isArmed && (Int(seconds) ?? 0) < 60 ? "descriptor \(descriptor): \(value)" : nil
    }
    return threads + timers
  }

  /// How often its threads have waited for something.
  static func waits(_ process: pid_t) -> Int {
    entries(of: "/proc/\(process)/task").reduce(0) { sum, thread in
      let status = contents(of: "/proc/\(process)/task/\(thread)/status")
      let line = status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
      return sum + (line?.split(separator: "\t").last.flatMap { Int($0) } ?? 0)
    }
  }

  /// Whether a line of proc(5)'s `syscall` is a wait that only an event ends.
  private static func waitsForever(_ call: String) -> Bool {
    let words = call.split(separator: " ")
    guard let number = words.first.flatMap({ Int($0) }), words.count > 6 else { return false }
    // The index of the timeout argument, and its value for no timeout.
    guard let (argument, never) = waits[number] else { return false }
    return argument.map { words[$0].hasSuffix(never) } ?? true
  }

  #if arch(x86_64)
    /// poll, epoll_wait, epoll_pwait, futex, rt_sigsuspend, wait4
    private static let waits: [Int: (argument: Int?, never: String)] = [
      7: (3, "ffffffff"), 232: (4, "ffffffff"), 281: (4, "ffffffff"), 202: (4, "0x0"),
      130: (nil, ""), 61: (nil, ""),
    ]
  #else
    /// The numbers on most other architectures: ppoll, epoll_pwait, futex, rt_sigsuspend, wait4
    private static let waits: [Int: (argument: Int?, never: String)] = [
      73: (3, "0x0"), 22: (4, "ffffffff"), 98: (4, "0x0"), 133: (nil, ""),
      260: (nil, ""),
    ]
  #endif

  private static func contents(of path: String) -> String {
    guard let file = fopen(path, "r") else { return "" }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    return String(decoding: bytes[..<fread(&bytes, 1, bytes.count, file)], as: UTF8.self)
  }

  private static func entries(of path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names
  }
}
