import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore

struct ConstrainCommand: CostCommand {
  static let configuration = CostOptions.configuration(
    "constrain", "Mark a link or a network as constrained: save data (Low Data Mode).")

  static let property = "constrained"

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl
  @OptionGroup var cost: CostOptions

  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest
  ) {
    request.constrained = choice
  }

  static func present(_ cost: PresentCost) -> String {
    cost.isConstrained
      ? "\(cost.link) is constrained: programs should save data"
      : "\(cost.link) is not constrained: programs need not save data"
  }
}

struct MeteredCommand: CostCommand {
  static let configuration = CostOptions.configuration(
    "metered", "Mark a link or a network as metered: traffic costs money.", alias: "expensive")

  static let property = "metered"

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl
  @OptionGroup var cost: CostOptions

  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest
  ) {
    request.expensive = choice
  }

  static func present(_ cost: PresentCost) -> String {
    cost.evidence?.sentence(about: cost.link)
      ?? "\(cost.link) is \(cost.isExpensive ? "metered" : "not known to be metered")"
  }
}

/// A command that sets a cost override.
protocol CostCommand: ConnctlCommand {
  var cost: CostOptions { get }
  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest)
  /// Returns the present cost, in one line.
  static func present(_ cost: PresentCost) -> String
  /// The adjective of a link or network with the override.
  static var property: String { get }
}

/// The target of an override, as shown to the user.
struct CostPlace: Hashable {
  var name: String
  /// The command-line arguments that select the target, with a space before each.
  var arguments = ""
  /// Why the override has no effect yet, or `nil` if it has an effect.
  var remark: String?
}

extension CostCommand {
  func run(through connector: Connector) async throws {
    var request = Connectivity_V1_SetCostRequest()
    let (target, choice) = try self.cost.parsed()
    guard let choice else { return try await self.show(target, through: connector) }
    Self.say(choice, in: &request)
    if let time = self.cost.for {
      request.duration = Google_Protobuf_Duration(rounding: time.duration)
    }
    switch self.cost.until {
    case .boot: request.atBoot = true
    case .left: request.whenLeft = true
    case nil: break
    }
    let (response, place) = try await self.answer(through: connector) { [request] connd in
      var request = request
      var place: CostPlace?
      switch target {
      case .link(let name, let mayBeMissing):
        if !mayBeMissing { _ = try await Self.link(named: name, connd) }
        request.link = name
      case .network(let name): request.network = name
      case .here:
        let (identity, here) = try await self.here(connd)
        (request.network, place) = (identity, here)
      }
      let response = try await decided {
        try await connd.call(ConndServices.Costs.SetCost.self, request)
      }
      // The override is in effect, even if a following query fails.
      if let place { return (response, place) }
      return (response, await self.place(of: target, connd))
    }
    if choice != .auto, let remark = place.remark { self.console.remark(remark) }
    if response.notKept {
      self.console.remark(
        "the override lasts only until connd exits: connd cannot save it (see connd's log)")
    }
    guard !response.hasOverruledBy else {
      return self.console.remark(
        "no effect: the configuration's rule for “\(response.overruledBy)” takes precedence")
    }
    try self.console.print([self.success(choice, place).printable])
  }

  /// Returns what was done and how to undo it.
  private func success(_ choice: Connectivity_V1_Choice, _ place: CostPlace) -> String {
    if choice == .auto { return "connd decides again whether \(place.name) is \(Self.property)" }
    let effect = "\(place.name) is \(choice == .off ? "not " : "")\(Self.property)"
    let end =
      switch (self.cost.for, self.cost.until) {
      case (let time?, _): "for \(time.text)"
      case (nil, .boot): "until the machine reboots"
      case (nil, .left): "until the machine leaves it"
      case (nil, nil): "from now on"
      }
    let undo = "connctl \(Self.configuration.commandName ?? "")\(place.arguments) auto"
    return "\(effect) \(end); undo: \(undo)"
  }

  /// Returns the identity and the description of the current network.
  private func here(_ connd: ConndServices) async throws -> (String, CostPlace) {
    let networks = try await connd.networks()
    let status = try ConnectivitySnapshot(
      try await connd.call(ConndServices.Connectivity.GetStatus.self)
    ).status
    guard let network = networks.first(where: \.current) else {
      self.console.remark(self.unidentified(status))
      throw ExitStatus.doesNotHold
    }
    let names = [network.hasName ? network.name : network.identity, status.interface]
    return (
      network.identity,
      CostPlace(name: "this network (\(names.compactMap { $0 }.joined(separator: ", ")))")
    )
  }

  private func unidentified(_ status: ConnectivityStatus) -> String {
    let command = "connctl \(Self.configuration.commandName ?? "")"
    guard let interface = status.interface else {
      return "the machine is on no network: name a link, as in “\(command) wlan0 on”"
    }
    let ping =
      status.path.gateway.map { gateway in
        " (ping -c 1 \(gateway)\(gateway.isLinkLocal ? "%\(interface)" : ""))"
      } ?? ""
    return "connd cannot identify the current network, because its router has not answered yet: "
      + "send it something\(ping), or name the link: “\(command) \(interface) on”"
  }

  private func place(of target: CostOptions.Target, _ connd: ConndServices) async -> CostPlace {
    switch target {
    case .here: return CostPlace(name: "this network")
    case .link(let name, let mayBeMissing):
      let option = mayBeMissing ? "--link " : ""
      var place = CostPlace(name: "the link \(name)", arguments: " \(option)\(name.shellWord)")
      if mayBeMissing, let links = try? await connd.links(),
        !links.contains(where: { $0.isNamed(name) })
      {
        place.remark = "the link “\(name)” does not exist; the override applies once it does"
      }
      return place
    case .network(let name):
      var place = CostPlace(
        name: "the network “\(name)”", arguments: " --network \(name.shellWord)")
      if let networks = try? await connd.networks(),
        !networks.contains(where: { $0.current && [$0.name, $0.identity].contains(name) }
        )
      {
        place.remark =
          "the machine is not on “\(name)” now: the override applies when it joins a network of exactly that name"
      }
      return place
    }
  }
}

extension String {
  /// Whether every shell takes the text as one word, without quotes.
  var isShellWord: Bool {
    !self.isEmpty
      && self.utf8.allSatisfy { byte in
        switch Character(Unicode.Scalar(byte)) {
        case "a"..."z", "A"..."Z", "0"..."9", "-", "_", ".", ":", "@", "/": true
        default: false
        }
      }
  }

  /// The text, quoted for a shell if necessary.
  var shellWord: String {
    guard !self.isShellWord else { return self }
    let quoted = self.split(separator: "'", omittingEmptySubsequences: false)
    return "'\(quoted.joined(separator: #"'\''"#))'"
  }
}

/// Makes a call that polkit authorizes. If polkit cannot decide, the call fails with UNAVAILABLE
/// although connd is running.
func decided<Response>(_ call: () async throws -> Response) async throws -> Response {
  do {
    return try await call()
  } catch let error as RPCError
    where error.code == .unavailable && error.message.hasPrefix("polkit ")
  {
    throw ConndError.failed(error.message)
  }
}
