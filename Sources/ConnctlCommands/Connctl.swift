import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import GRPCCore
import LinuxSupport

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
    version: "connctl \(Version.built)",
    subcommands: [],
    groupedSubcommands: [
      CommandGroup(
        name: "Look",
        subcommands: [
          StatusCommand.self, TopCommand.self, WhyCommand.self, ExplainCommand.self,
          PathCommand.self,
          ConnectionsCommand.self, LinksCommand.self, DNSCommand.self, HistoryCommand.self,
        ]),
      CommandGroup(
        name: "Follow", subcommands: [WatchCommand.self, OnCommand.self, GuardCommand.self]),
      CommandGroup(
        name: "Script",
        subcommands: [
          IsCommand.self, WaitCommand.self, RunCommand.self, KeepCommand.self, ReapCommand.self,
          MetricsCommand.self, CompletionCommand.self, NamesCommand.self,
        ]),
      CommandGroup(
        name: "Costs",
        subcommands: [
          MeteredCommand.self, ConstrainCommand.self, AssistCommand.self, NetworksCommand.self,
          ForgetCommand.self,
        ]),
      CommandGroup(
        name: "Trouble",
        subcommands: [StatsCommand.self, RecordCommand.self, ReportCommand.self]),
    ])

  @OptionGroup var options: Options

  /// Shows the status if no command is given, and in a terminal a hint on other commands.
  func run(through connector: Connector) async throws {
    let socket = self.options.socket ?? ConndSocket.default.path
    try await StatusCommand.show(socket, json: self.options.json, through: connector)
    Console.current.hint(
      "“connctl watch” follows changes, “connctl explain” explains the path; --help lists the rest")
  }
}

/// The options of a command, accepted before and after its name.
protocol CommandOptions: ParsableArguments {
  /// Whether the command prints JSON.
  static var includesJSON: Bool { get }
  var socket: String? { get }
  var json: Bool { get }
}

/// The options of a command that prints text or JSON.
struct Options: CommandOptions {
  static let includesJSON = true

  @Option(help: ArgumentHelp("The path of connd's socket.", valueName: "path"), completion: .file())
  var socket: String?

  @Flag(help: "Print JSON: one object, or one per line.")
  var json = false

  func validate() throws {
    guard self.socket != "" else { throw ValidationError("--socket needs a path") }
  }
}

/// The options of a command without JSON.
struct PlainOptions: CommandOptions {
  static let includesJSON = false

  @Option(help: ArgumentHelp("The path of connd's socket.", valueName: "path"), completion: .file())
  var socket: String?

  // Parsed so that the error can name the commands that have this option.
  @Flag(help: .hidden)
  var json = false

  func validate() throws {
    guard self.socket != "" else { throw ValidationError("--socket needs a path") }
  }
}

/// A command that queries connd.
protocol ConnctlCommand: RunnableCommand {
  associatedtype Accepted: CommandOptions
  /// The options after the command's name.
  var options: Accepted { get }
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

  /// Prints an answer: as JSON if that was requested, or else as text.
  func show(
    _ json: @autoclosure () throws -> JSON?, _ text: @autoclosure () throws -> [String]
  ) throws {
    guard self.json else { return try self.console.print(try text()) }
    if let object = try json() { try self.console.print(object) }
  }

  static var includesJSON: Bool { Accepted.includesJSON }

  /// - Throws: `ValidationError` if JSON was requested and the command prints none.
  func checkJSON() throws {
    guard self.json, !Self.includesJSON else { return }
    let names = Connctl.configuration.subcommands.filter {
      ($0 as? any ConnctlCommand.Type)?.includesJSON ?? false
    }.compactMap { $0.configuration.commandName }
    throw ValidationError(
      "\(Self.configuration.commandName ?? "this command") prints no JSON. --json works with \(names.joined(separator: ", "))"
    )
  }
}
