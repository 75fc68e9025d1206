import CLinux
import Glibc
import Synchronization

/// Why a test's command failed.
public struct CommandError: Error, CustomStringConvertible {
  public var description: String

  public init(_ description: String) {
    self.description = description
  }
}

/// Runs a program and waits for it.
public enum Command {
  /// Runs a program, found in PATH, to its end.
  ///
  /// - Returns: Its standard output.
  /// - Throws: if its status is not 0, with its standard error, or if it does not end in time.
  @discardableResult
  public static func run(
    _ arguments: [String], environment: [String: String] = [:],
    within deadline: Duration = .seconds(60)
  ) throws -> String {
    let outcome = try self.outcome(of: arguments, environment: environment, within: deadline)
    guard outcome.status == 0 else {
      throw CommandError(
        "\(arguments.joined(separator: " ")): status \(outcome.status): \(outcome.standardError)")
    }
    return outcome.output
  }

  /// The end of a program.
  public struct Outcome: Hashable, Sendable {
    /// The exit status, or 128 + n if signal n ended it.
    public var status: Int
    public var output: String
    public var standardError: String
  }

  /// Runs a program, found in PATH, to its end, whatever its status.
  ///
  /// - Throws: if it does not start, or does not end in time.
  public static func outcome(
    of arguments: [String], environment: [String: String] = [:],
    within deadline: Duration = .seconds(60)
  ) throws -> Outcome {
    let command = try RunningCommand(arguments, environment: environment)
    let output = try command.remainingOutput(within: deadline)
    let status = try command.wait(within: deadline)
    return Outcome(status: status, output: output, standardError: command.standardError)
  }
}

/// A program that runs beside the test. It is killed, if need be, with the last reference.
///
/// Thread-safe; but each line goes to only one waiting caller.
public final class RunningCommand: Sendable {
  public let arguments: [String]
  public let processIdentifier: Int32
  private let output: Mutex<LineReader>
  private let errorFile: CInt
  private let processDescriptor: CInt
  /// The result of `wait`, or `nil` until the process has been reaped.
  private let status = Mutex<Int?>(nil)

  /// Starts a program, found in PATH, with this process's environment and `environment` on top.
  /// Standard input is empty.
  ///
  /// - Parameter descriptors: its descriptors from number 3 on, in this order.
  public init(
    _ arguments: [String], environment: [String: String] = [:], passing descriptors: [CInt] = []
  ) throws {
    self.arguments = arguments
    var ends: [CInt] = [-1, -1]
    guard clinux_pipe(&ends) == 0 else { throw CommandError("pipe: errno \(errno)") }
    self.errorFile = clinux_memory_file("standard-error")
    // Without this, lines that two threads write to a memory file overwrite each other: the kernel
    // does not lock the position of such a file.
    _ = fcntl(self.errorFile, F_SETFL, O_APPEND)
    self.output = Mutex(LineReader(fileDescriptor: ends[0]))
    defer { close(ends[1]) }

    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
    posix_spawn_file_actions_adddup2(&actions, self.errorFile, 2)
    // Copies with higher numbers: the final numbers may be among the sources.
    let end = 3 + CInt(descriptors.count)
    let copies = descriptors.map { fcntl($0, F_DUPFD_CLOEXEC, end) }
    defer { copies.forEach { close($0) } }
    for (number, copy) in zip(3..<end, copies) {
      posix_spawn_file_actions_adddup2(&actions, copy, number)
    }
    // Descriptors that other tests have open must not be inherited.
    clinux_close_from(&actions, end)

    // Threads of a pool block signals, and a started program would inherit that: tmux then never
    // ends.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

    var variables = Self.environment
    variables.merge(environment) { $1 }
    let cArguments = arguments.map { strdup($0) } + [nil]
    let cEnvironment = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { (cArguments + cEnvironment).forEach { free($0) } }
    var process: pid_t = 0
    let result = posix_spawnp(
      &process, arguments.first ?? "", &actions, &attributes, cArguments, cEnvironment)
    guard result == 0 else {
      close(self.errorFile)
      self.processDescriptor = -1
      self.processIdentifier = 0
      self.status.withLock { $0 = -1 }
      throw CommandError("\(arguments.first ?? "nothing"): \(String(cString: strerror(result)))")
    }
    self.processIdentifier = process
    self.processDescriptor = clinux_process_descriptor(process)
  }

  deinit {
    guard self.processIdentifier > 0 else { return }
    if self.status.withLock({ $0 }) == nil {
      kill(self.processIdentifier, SIGKILL)
      waitpid(self.processIdentifier, nil, 0)
    }
    close(self.processDescriptor)
    close(self.errorFile)
  }

  /// This process's variables. Without SWIFT_BACKTRACE: installed programs do not find the tool
  /// for backtraces, and say so on standard error.
  private static var environment: [String: String] {
    var variables: [String: String] = [:]
    var next = environ
    while let entry = next.pointee {
      let parts = String(cString: entry).split(separator: "=", maxSplits: 1)
      if parts.count == 2 { variables[String(parts[0])] = String(parts[1]) }
      next += 1
    }
    variables["SWIFT_BACKTRACE"] = nil
    return variables
  }

  /// The next line of standard output, without its end, or `nil` at its end.
  ///
  /// - Throws: if it does not come in time.
  public func nextLine(within deadline: Duration = .seconds(20)) throws -> String? {
    try self.nextLine(within: Patience(deadline))
  }

  /// The next line of standard output, without its end, or `nil` at its end.
  ///
  /// - Throws: if it does not come in time.
  public func nextLine(within patience: Patience) throws -> String? {
    try self.output.withLock { try $0.nextLine(within: patience) }
  }

  /// The first line from here on for which `matches` holds.
  ///
  /// - Throws: if it does not come in time, or the output ends before.
  @discardableResult
  public func line(
    within deadline: Duration = .seconds(20), where matches: (String) throws -> Bool
  ) throws -> String {
    let patience = Patience(deadline)
    var seen: [String] = []
    do {
      while let line = try self.output.withLock({ try $0.nextLine(within: patience) }) {
        if try matches(line) { return line }
        seen.append(line)
      }
    } catch let error as CommandError {
      throw CommandError("\(error); seen: \(seen); standard error: \(self.standardError)")
    }
    throw CommandError("output ended; seen: \(seen); standard error: \(self.standardError)")
  }

  /// The rest of standard output.
  public func remainingOutput(within deadline: Duration = .seconds(20)) throws -> String {
    try self.output.withLock { try $0.remainder(within: Patience(deadline)) }
  }

  /// Its standard error so far.
  public var standardError: String {
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = pread(self.errorFile, &bytes, bytes.count, 0)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }

  /// Returns the processor time that the process has used. Other processes do not affect it.
  public func processorTime() throws -> Duration {
    var (clock, time) = (clockid_t(), timespec())
    guard clock_getcpuclockid(self.processIdentifier, &clock) == 0,
      clock_gettime(clock, &time) == 0
    else { throw CommandError("no processor time of \(self.processIdentifier): errno \(errno)") }
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  /// Sends a signal, if the process still runs.
  public func signal(_ number: CInt) {
    self.status.withLock { if $0 == nil { kill(self.processIdentifier, number) } }
  }

  /// Waits for the end: the exit status, or 128 + n if signal n ended it.
  ///
  /// - Throws: if it does not end in time.
  @discardableResult
  public func wait(within deadline: Duration = .seconds(20)) throws -> Int {
    if let status = self.status.withLock({ $0 }) { return status }
    guard Patience(deadline).awaitInput(of: self.processDescriptor) else {
      throw CommandError("\(self.arguments.joined(separator: " ")) does not end")
    }
    return self.status.withLock { status in
      if let status { return status }
      var raw: CInt = 0
      waitpid(self.processIdentifier, &raw, 0)
      let code = raw & 0x7F == 0 ? Int(raw >> 8 & 0xFF) : 128 + Int(raw & 0x7F)
      status = code
      return code
    }
  }

  /// Ends the process with SIGTERM, and waits.
  @discardableResult
  public func terminate(within deadline: Duration = .seconds(20)) throws -> Int {
    self.signal(SIGTERM)
    return try self.wait(within: deadline)
  }
}

/// Reads lines from a descriptor that it owns.
private struct LineReader: ~Copyable {
  let fileDescriptor: CInt
  private var bytes: [UInt8] = []
  private var hasEnded = false

  init(fileDescriptor: CInt) {
    self.fileDescriptor = fileDescriptor
  }

  deinit { close(self.fileDescriptor) }

  mutating func nextLine(within patience: Patience) throws -> String? {
    while true {
      if let end = self.bytes.firstIndex(of: UInt8(ascii: "\n")) {
        defer { self.bytes.removeFirst(end + 1) }
        return String(decoding: self.bytes[..<end], as: UTF8.self)
      }
      if self.hasEnded {
        defer { self.bytes = [] }
        return self.bytes.isEmpty ? nil : String(decoding: self.bytes, as: UTF8.self)
      }
      try self.fill(within: patience)
    }
  }

  mutating func remainder(within patience: Patience) throws -> String {
    while !self.hasEnded { try self.fill(within: patience) }
    defer { self.bytes = [] }
    return String(decoding: self.bytes, as: UTF8.self)
  }

  private mutating func fill(within patience: Patience) throws {
    guard patience.awaitInput(of: self.fileDescriptor) else {
      throw CommandError("no output in time")
    }
    var part = [UInt8](repeating: 0, count: 65536)
    let count = read(self.fileDescriptor, &part, part.count)
    if count > 0 { self.bytes += part.prefix(count) } else { self.hasEnded = true }
  }
}
