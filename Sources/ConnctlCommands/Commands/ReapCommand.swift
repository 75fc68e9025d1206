import ArgumentParser
import Connectivity
import ConnectivityMonitor
import Glibc
import LinuxSupport

struct ReapCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "reap", "End dead connections of programs that know nothing of connd.",
    usage: "connctl reap [<options>]",
    discussion: """
      Needs CAP_NET_ADMIN. connd-reap.service runs it for the whole machine.

      A connection that connd declares lost is held for two seconds. If its peer is still silent \
      then, it ends as soon as there is another path to its peer, or when --patience is over. A \
      better path alone ends nothing. Each end is one line on standard error.

      Without options, ends connections of all users. Never ends those of loopback addresses, of \
      Multipath TCP, of port 22 (unless --port names it), nor those that this machine has accepted \
      (unless --accepted).
      """,
    examples: [
      "sudo connctl reap --dry-run", "sudo connctl reap --unit backup.service",
      "sudo connctl reap --user postgres --port 5432",
    ])

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Flag(help: "Only report which connections would end.")
  var dryRun = false

  @Option(
    help: ArgumentHelp(
      "End only connections of this user. May be repeated.", valueName: "name"))
  var user: [String] = []

  @Option(
    help: ArgumentHelp(
      "End only connections of this systemd unit. May be repeated.", valueName: "unit"))
  var unit: [String] = []

  @Option(
    help: ArgumentHelp(
      "End only connections to this port. May be repeated.", valueName: "number"))
  var port: [UInt16] = []

  @Flag(help: "Also end connections that this machine has accepted.")
  var accepted = false

  @OptionGroup var patience: PatienceOption

  private func rules() throws -> KernelEnder.Rules {
    let users = try self.user.map { name in
      guard let user = UInt32(name) ?? UserName.number(of: name) else {
        throw ValidationError("the user “\(name)” does not exist")
      }
      return user
    }
    return KernelEnder.Rules(
      users: Set(users), units: Set(self.unit), ports: Set(self.port),
      includesAccepted: self.accepted, isDryRun: self.dryRun)
  }

  func validate() throws { _ = try self.rules() }

  func run(through connector: Connector) async throws {
    let console = self.console
    let report: @Sendable (String) -> Void = { console.remark($0) }
    try await ReaperSession(
      self.patience.settings, KernelEnder(try self.rules(), report: report), socket: self.socket,
      through: connector, report: report
    ).run()
  }
}

/// The option for how long a lost connection is held.
struct PatienceOption: ParsableArguments {
  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "How long a lost connection is held without another path (default: 10s).",
      valueName: "time"),
    transform: Timeout.reading)
  var patience = Timeout(duration: .seconds(10), text: "10s")

  var settings: Reaper.Settings { Reaper.Settings(patience: self.patience.duration) }
}
