public import ArgumentParser
import CLinux
import Connectivity
import Glibc
import LinuxSupport
import Logging
import Systemd
import UnixTransport

/// `connd`, the program.
public struct ConndCommand: ParsableCommand {
  public static let configuration = CommandConfiguration(
    commandName: "connd",
    abstract: "Tracks which network this machine's traffic uses, and serves it over gRPC.",
    usage: """
      connd [<options>] [--check-config [<file>]]
      connd --replay <file> [--report <file>]
      """,
    discussion: """
      connd listens on a Unix socket. Its path comes from --socket, CONND_SOCKET or the configuration, in \
      this order, and defaults to /run/connd/connd.sock. If that directory does not exist, the default \
      for users other than root is $XDG_RUNTIME_DIR/connd.sock. systemd may pass the socket. SIGHUP reloads \
      the configuration. SIGUSR1 logs the figures of connctl stats. SIGTERM and SIGINT stop connd.

      Exit status: 0 stopped as requested, or the configuration is valid; 1 cannot start; 64 usage; \
      77 permission denied; 78 the configuration is invalid.
      """,
    version: "connd \(Version.built)")

  @Option(
    help: ArgumentHelp(
      "Read the configuration from this file. Default: for users other than root $XDG_CONFIG_HOME/connd/connd.yaml, or else \(Configuration.systemFile), if it exists.",
      valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("Listen on this Unix socket.", valueName: "path"))
  var socket: String?

  @Option(
    help: ArgumentHelp(
      "The minimum log level: trace, debug, info, notice, warning, error, critical.",
      valueName: "level"),
    transform: { text in
      guard let level = Logger.Level(rawValue: text) else {
        throw ValidationError("'\(text)' is not a log level")
      }
      return level
    })
  var logLevel = Logger.Level.info

  @Option(
    help: ArgumentHelp(
      "Record connd's inputs and queries in this file, up to 64 MiB, for --replay.",
      valueName: "file"))
  var record: String?

  @Option(
    help: ArgumentHelp(
      "With --record: start in the state of the running connd, the response to GetConfiguration.",
      valueName: "file", visibility: .hidden))
  var startFrom: String?

  @Option(
    help: ArgumentHelp(
      "Print the output of connctl watch --json for this recording, and exit.",
      valueName: "file"))
  var replay: String?

  @Option(
    help: ArgumentHelp(
      "With --replay: write a report instead, with substitutes for all addresses and names.",
      valueName: "file"))
  var report: String?

  @Option(
    help: ArgumentHelp(
      "With --report: also write the answers for connctl report to this file.", valueName: "file",
      visibility: .hidden))
  var answers: String?

  @Flag(help: "Check the configuration and exit.")
  var checkConfig = false

  @Argument(help: "With --check-config: the file to check.", completion: .file())
  var file: String?

  public init() {}

  public func validate() throws {
    guard self.socket != "" else { throw ValidationError("--socket needs a path") }
    guard self.record != "", self.replay != "", self.report != "" else {
      throw ValidationError("--record, --replay and --report need a file")
    }
    guard self.report == nil || self.replay != nil else {
      throw ValidationError("--report needs --replay and a recording")
    }
    guard self.answers == nil || self.report != nil else {
      throw ValidationError("--answers needs --report")
    }
    guard self.startFrom == nil || (self.record != nil && self.config == nil) else {
      throw ValidationError("--start-from needs --record, and cannot be combined with --config")
    }
    guard
      self.replay == nil
        || (self.record == nil && self.config == nil && self.socket == nil && !self.checkConfig)
    else { throw ValidationError("--replay cannot be combined with other options except --report") }
    guard self.file == nil || (self.checkConfig && self.config == nil) else {
      throw ValidationError("name the file either with --config or after --check-config")
    }
  }

  public mutating func run() throws {
    if let replay {
      guard ReplayCommand(file: replay, report: self.report, answers: self.answers).run() else {
        throw ExitCode.failure
      }
      return
    }
    let named = self.config ?? self.file
    let file = named ?? Self.defaultFile
    let isOptional = named == nil
    @Sendable func read() throws(ConfigurationError) -> Configuration {
      try Configuration.read(file: file, isOptional: isOptional)
    }

    let configuration: Configuration
    var start: StartingPoint?
    do {
      start = try self.startFrom.map { try StartingPoint(file: $0) }
      configuration = try start?.configuration ?? read()
    } catch let error as ConfigurationError {
      for mistake in error.mistakes { complain("\(mistake)") }
      throw ExitCode(78)
    } catch {
      complain("\(error)")
      throw ExitCode.failure
    }
    if self.checkConfig {
      for warning in configuration.source.warnings { complain("warning: \(warning)") }
      print(Self.verdict(onFile: file))
      return
    }

    ProcessLimits.apply()
    // Environment variables are read while there is only one thread.
    LogDestination.fromEnvironment().bootstrapLogging(identifier: "connd", level: self.logLevel)
    let logger = Logger(label: "connd")
    for warning in configuration.source.warnings { logger.warning("\(warning)") }
    let connd: Connd
    do throws(SystemdError) {
      connd = Connd(
        configuration: configuration, readConfiguration: read,
        socketPath: self.socketPath(configuration),
        passed: try PassedSockets.take(),
        notifier: .fromEnvironment { logger.debug("cannot notify systemd: \($0)") },
        logger: logger, recording: self.record, start: start)
    } catch {
      complain("unusable socket passed by systemd: \(error)")
      throw ExitCode.failure
    }

    let listeners = connd.passed.unixListeners
    guard listeners.count <= 1 else {
      complain(
        "systemd passed \(listeners.count) listening sockets, but connd serves only one: keep one ListenStream= in connd.socket"
      )
      throw ExitCode.failure
    }

    do {
      try connd.runOnOneThread()
    } catch let error as ListeningError {
      complain("\(error)")
      throw error.isPermission ? ExitCode(77) : ExitCode.failure
    } catch {
      complain("\(error)")
      throw ExitCode.failure
    }
  }
}

extension ConndCommand {
  /// Returns the message of `--check-config` for a file that was read without an error.
  static func verdict(onFile file: String) -> String {
    let exists = access(file, F_OK) == 0 || errno != ENOENT
    return "\(file): " + (exists ? "valid" : "does not exist; the defaults apply")
  }

  private static var defaultFile: String {
    Configuration.defaultFile(of: getuid()) { name in
      getenv(name).map { String(cString: $0) }
    } exists: {
      access($0, F_OK) == 0
    }
  }

  /// Returns the socket path: from the command line, the environment, the configuration, or the
  /// default, in this order.
  private func socketPath(_ configuration: Configuration) -> String {
    if let socket = self.socket { return socket }
    func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
    if let configured = configuration.socket, variable("CONND_SOCKET")?.isEmpty ?? true {
      return configured
    }
    let hasDirectory = variable("RUNTIME_DIRECTORY") != nil
    return DefaultSocket.path(environment: variable, uid: getuid()) { _ in hasDirectory }
  }
}

extension ConndCommand {
  /// Runs the command that the process's arguments select, and exits.
  public static func start() {
    self.widenHelp()
    let arguments = ProgramArguments.all
    // The parser knows only the long name, `--version`.
    self.main(arguments.first == "-V" ? ["--version"] : arguments)
  }

  /// Makes help at least 40 columns wide. The parser wraps help to COLUMNS or the terminal's width,
  /// and traps if that is narrower than its indent. Must be called while there is only one thread.
  private static func widenHelp() {
    var size = winsize()
    let isTerminal = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
    let named = getenv("COLUMNS").flatMap { Int(String(cString: $0)) }
    guard let width = named ?? (isTerminal ? Int(size.ws_col) : nil), width < 40 else { return }
    setenv("COLUMNS", "40", 1)
  }
}

/// Writes one line to standard error, for a terminal and for systemd.
func complain(_ message: String) {
  let line = Array("connd: \(message.escaped)\n".utf8)
  write(STDERR_FILENO, line, line.count)
}
