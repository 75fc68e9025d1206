public import ArgumentParser
import Connectivity
import ConnectivityMonitor
import Glibc
import LinuxSupport
import Logging
import Netlink
import Systemd
import UnixTransport

/// `connd-multipath`, the program.
public struct MultipathCommand: ParsableCommand {
  public static let configuration = CommandConfiguration(
    commandName: "connd-multipath",
    abstract: "Lets connections of Multipath TCP use all links with a default path.",
    discussion: """
      connd-multipath asks connd which links lead to the internet, and keeps one endpoint of Multipath \
      TCP for each: a backup if it is metered or not the best. Beside the default route, a metered \
      link has one only after “connctl assist on”. It deletes only endpoints that it made. It needs \
      CAP_NET_ADMIN.

      While mptcpd is running, connd-multipath waits for its end.

      Exit status: 0 done; 1 failed; 64 usage; 69 connd does not answer, the kernel has no Multipath \
      TCP, or mptcpd is running (only with --remove); 77 permission denied; 78 the configuration is \
      invalid.
      """,
    version: "connd-multipath \(Version.built)")

  @Option(
    help: ArgumentHelp(
      "Read the configuration from this file. Default: \(MultipathSettings.systemFile), if it exists.",
      valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("The path of connd's socket.", valueName: "path"))
  var socket: String?

  @Option(
    help: ArgumentHelp(
      "Keep the list of own endpoints in this file. Default: $RUNTIME_DIRECTORY/endpoints, or \(Self.serviceDirectory)/endpoints if the service has been started.",
      valueName: "file"))
  var state: String?

  @Flag(help: "Print the changes that would be made now, and exit.")
  var dryRun = false

  @Flag(help: "Delete all own endpoints, and exit.")
  var remove = false

  public init() {}

  /// Runs the command of the process's arguments, and ends the process.
  public static func start() { self.main(ProgramArguments.all) }

  public func run() throws {
    signal(SIGPIPE, SIG_IGN)
    LogDestination.fromEnvironment().bootstrapLogging(identifier: "connd-multipath", level: .info)
    do {
      try self.start()
    } catch let error as SettingsError {
      throw Self.failure("\(error)", EX_CONFIG)
    } catch let error as ConndError {
      throw Self.failure("\(error)", EX_UNAVAILABLE)
    } catch let error as NetlinkError {
      let status =
        error.isPermission ? EX_NOPERM : error.isUnsupported ? EX_UNAVAILABLE : EXIT_FAILURE
      throw Self.failure("\(error)", status)
    } catch let error as SystemError {
      throw Self.failure("\(error)", EXIT_FAILURE)
    }
  }

  private func start() throws {
    let settings = try self.settings()
    if !self.dryRun { try self.waitForOtherManager() }
    let store = EndpointStore(path: self.state ?? Self.defaultState, isWritten: !self.dryRun)
    let socket = self.socket.map { ConndSocket(path: $0) } ?? .default
    let isDry = self.dryRun
    let isRemoval = self.remove
    let reactor = try Reactor()
    try reactor.runBlocking {
      var keeper = EndpointKeeper(
        try MultipathRequester(), try Requester(), store, adopts: settings.adopt,
        logger: Logger(label: "connd-multipath"))
      if isRemoval { return try keeper.removeAll() }
      let service = try EndpointService(socket, on: reactor)
      guard isDry else { return try await service.run(keeper) }
      for action in try await service.dryRun(keeper).actions { print(action.text) }
    }
  }

  /// The interval between checks for another program that manages the endpoints, in seconds.
  private static let secondsBetweenLooks: CUnsignedInt = 5

  /// Waits until no other program manages the endpoints.
  ///
  /// - Throws: An error if another program manages the endpoints and `--remove` is given.
  private func waitForOtherManager() throws {
    var isLogged = false
    while let process = OtherManager().process {
      let text = "\(OtherManager.name) is running (process \(process)) and manages the endpoints"
      if self.remove { throw Self.failure(text, EX_UNAVAILABLE) }
      if !isLogged { Logger(label: "connd-multipath").warning("\(text); waiting for its end") }
      isLogged = true
      sleep(Self.secondsBetweenLooks)
    }
  }

  /// The runtime directory of the service.
  private static let serviceDirectory = "/run/connd-multipath"

  /// The path of the service's list of endpoints, or `nil` if the service was never started. The
  /// program uses the same list when an administrator runs it.
  private static var defaultState: String? {
    let own = getenv("RUNTIME_DIRECTORY").map { String(cString: $0) }
    let service = access(self.serviceDirectory, F_OK) == 0 ? self.serviceDirectory : nil
    return (own ?? service).map { "\($0)/endpoints" }
  }

  private func settings() throws(SettingsError) -> MultipathSettings {
    if let config = self.config { return try MultipathSettings(file: config) }
    let file = MultipathSettings.systemFile
    return access(file, F_OK) == 0 ? try MultipathSettings(file: file) : MultipathSettings()
  }

  private static func failure(_ message: String, _ status: CInt) -> ExitCode {
    Logger(label: "connd-multipath").error("\(message)")
    return ExitCode(status)
  }
}
