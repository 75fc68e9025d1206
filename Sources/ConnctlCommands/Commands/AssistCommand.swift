import ArgumentParser
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol

struct AssistCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "assist", "Choose whether connections may leave a network that carries badly.",
    discussion: """
      Applications with connd's library make their next connection by another link if the network \
      loses most packets. With auto they do so only if the other link costs nothing. “on” also \
      allows links that cost money, to applications that want them, but never while roaming. “off” \
      forbids it to all.

      Allowed for the users that may set costs (org.connd.set-cost).
      """,
    examples: ["connctl assist on --for 2h", "connctl assist off", "connctl assist auto"],
    exit: "0 if the choice is set, 69 also if polkit does not decide.")

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Argument(help: "on, off or auto.")
  var choice: Choice

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("How long it applies: 30m, 2h, 1d.", valueName: "time"),
    transform: Timeout.reading)
  var `for`: Timeout?

  @Option(help: ArgumentHelp("When it ends: at reboot.", valueName: "boot"))
  var until: End?

  enum Choice: String, ExpressibleByArgument, CaseIterable {
    case on, off, auto
  }

  enum End: String, ExpressibleByArgument, CaseIterable {
    case boot
  }

  func validate() throws {
    if self.for != nil, self.until != nil {
      throw ValidationError("use either --for or --until")
    }
    if let time = self.for, time.duration < .seconds(1) {
      throw ValidationError("--for must be at least 1s")
    }
  }

  func run(through connector: Connector) async throws {
    var request = Connectivity_V1_SetAssistRequest()
    request.assist =
      switch self.choice {
      case .on: .on
      case .off: .off
      case .auto: .auto
      }
    if let time = self.for { request.duration = Google_Protobuf_Duration(rounding: time.duration) }
    if self.until == .boot { request.atBoot = true }
    let response = try await self.answer(through: connector) { [request] connd in
      try await decided { try await connd.call(ConndServices.Costs.SetAssist.self, request) }
    }
    if response.notKept {
      self.console.remark(
        "the choice lasts only until connd exits: connd cannot save it (see connd's log)")
    }
    try self.console.print([self.success])
  }

  /// The effect of the choice, and how to undo it.
  private var success: String {
    let effect =
      switch self.choice {
      case .on: "connections may leave a bad network, even if the other one costs money"
      case .off: "no connection leaves a bad network"
      case .auto: "connections may leave a bad network if the other one costs nothing"
      }
    guard self.choice != .auto else { return effect }
    let end =
      self.for.map { "for \($0.text)" }
      ?? (self.until == nil ? "from now on" : "until the machine reboots")
    return "\(effect) \(end); undo: connctl assist auto"
  }
}
