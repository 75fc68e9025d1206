import ArgumentParser
import Connectivity
import ConnectivityMonitor
import GRPCCore

/// The command line tool `connctl`.
struct Connctl: RunnableCommand {
  static let configuration = CommandConfiguration(
    commandName: "connctl",
    abstract: "Which network does this machine's traffic use?",
    discussion: """
      Without a command, runs connctl status.

      connctl connects to connd's socket: --socket, or else CONND_SOCKET, or else \
      \(DefaultSocket.system), or $XDG_RUNTIME_DIR/connd.sock if that does not exist.

      \(ExitStatus.help)
      """,
    version: "connctl \(Version.string)",
    subcommands: [
      StatusCommand.self, TopCommand.self, WatchCommand.self, PathCommand.self,
      ExplainCommand.self,
      LinksCommand.self, HistoryCommand.self, GuardCommand.self, IsCommand.self, WaitCommand.self,
      DNSCommand.self, ConstrainCommand.self, MeteredCommand.self, NetworksCommand.self,
      ForgetCommand.self,
      OnCommand.self, RunCommand.self, KeepCommand.self, StatsCommand.self, RecordCommand.self,
      ReportCommand.self,
    ])

  @OptionGroup var options: Options

  /// Without a command, shows the status, and in a terminal a hint on other commands.
  func run(through connector: Connector) async throws {
    let socket = self.options.socket ?? ConndSocket.default.path
    try await StatusCommand.show(socket, json: self.options.json, through: connector)
    Console.current.hint(
      "“connctl watch” follows changes, “connctl explain” explains the path; --help lists the rest")
  }
}

/// The options of every command, accepted before and after its name.
struct Options: ParsableArguments {
  @Option(help: ArgumentHelp("The path of connd's socket.", valueName: "path"), completion: .file())
  var socket: String?

  @Flag(help: "Print JSON: one object, or one per line.")
  var json = false

  func validate() throws {
    guard self.socket != "" else { throw ValidationError("--socket needs a path") }
  }
}

/// A command that queries connd.
protocol ConnctlCommand: RunnableCommand {
  /// The options after the command's name.
  var options: Options { get }
  /// The options before the command's name.
  var parent: Connctl { get }
}

protocol RunnableCommand: ParsableCommand {
  /// Runs the command over connections that the connector makes.
  func run(through connector: Connector) async throws
}

extension ConnctlCommand {
  var socket: String {
    self.options.socket ?? self.parent.options.socket ?? ConndSocket.default.path
  }

  var json: Bool { self.options.json || self.parent.options.json }

  var console: Console { Console.current }
}

extension CallOptions {
  /// Options for calls that connd answers immediately. A connd that hangs is treated as absent.
  static var prompt: CallOptions {
    var options = CallOptions.defaults
    options.timeout = .seconds(10)
    return options
  }
}
