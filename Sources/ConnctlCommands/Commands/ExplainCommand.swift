import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol

struct ExplainCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "explain", "Explain a path, and why traffic does not use the other links.",
    usage: "connctl explain [<options>] [<host>|<link>]",
    discussion: """
      Says in one sentence why traffic leaves as it does, then shows the steps (rule, table, route, \
      gateway, links, medium, flags, category), and why it does not leave by each other link.

      Uses the first address of a host name. Without a host, or with the name of a link, explains \
      the path to the internet. --link, or the name of a link, compares only that link.

      With the host's port, and --local with a port, explains that TCP connection, and shows the \
      state of its socket.
      """,
    examples: [
      "connctl explain", "connctl explain eth0", "connctl explain example.com --link eth0",
      "connctl explain 203.0.113.9 --mark 0xca6c",
      "connctl explain 203.0.113.9:22 --local 192.0.2.7:42912",
    ],
    exit: "0 even if no path is satisfied, 1 if the name cannot be resolved.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(
    help: ArgumentHelp(
      "A host name or an address, optionally with a port: [2001:db8::1]:443; or a link.",
      valueName: "host"),
    completion: .linkNames, transform: Endpoint.init)
  var remote: Endpoint?

  @Option(
    help: ArgumentHelp(
      "The connection's own address, optionally with a port.", valueName: "address"),
    transform: AddressEndpoint.init)
  var local: AddressEndpoint?

  @Option(
    help: ArgumentHelp("Explain why traffic does not use this link.", valueName: "name"),
    completion: .linkNames)
  var link: String?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("The mark (SO_MARK) of the traffic: 16 or 0x10.", valueName: "number"),
    transform: UInt32.readingMark)
  var mark: UInt32 = 0

  func validate() throws {
    if self.local != nil, self.remote == nil { throw ValidationError("--local needs a host") }
    guard self.link != "" else { throw ValidationError("--link needs a name") }
  }

  func run(through connector: Connector) async throws {
    var request = Connectivity_V1_ExplainRequest()
    if let link = self.link { request.interface = link }
    if let remote = self.remote { try await self.name(remote, in: &request, connector) }
    let (explanation, present) = try await connector.withServices(at: self.socket) {
      [request] connd in
      var request = request
      let status = try await connd.call(ConndServices.Connectivity.GetStatus.self)
      if let foreign = ForeignNamespace(of: status.networkNamespace) {
        if request.hasDestination { throw foreign }
        self.console.remark(foreign.remark)
      }
      let present = try ConnectivitySnapshot(status).status
      if self.mark != 0 {
        // A mark needs a destination. If the request has none, use the destination that connd
        // explains by default.
        if !request.hasDestination {
          request.destination = try await connd.call(
            ConndServices.Diagnostics.Explain.self, request
          ).destination
        }
        request.mark = self.mark
      }
      return (try await connd.call(ConndServices.Diagnostics.Explain.self, request), present)
    }
    try self.show(
      try .explanation(explanation),
      try self.console.style.explanation(
        explanation, host: request.hasDestination ? self.remote?.host : nil,
        link: request.hasInterface ? request.interface : nil,
        // The status is about traffic without a mark.
        status: self.mark == 0 ? present : nil))
  }

  /// Adds the argument to the request: a link if one has that name, or else a host.
  private func name(
    _ remote: Endpoint, in request: inout Connectivity_V1_ExplainRequest, _ connector: Connector
  ) async throws {
    guard self.link == nil, self.local == nil, remote.mayBeLink else {
      return try self.nameHost(remote, in: &request)
    }
    let links = try await connector.withServices(at: self.socket) { try await $0.links() }
    if links.contains(where: { $0.isNamed(remote.host) }) {
      request.interface = remote.host
      return
    }
    let names = links.map(\.name).prefix(8).joined(separator: ", ")
    if remote.host.isTypicalLinkName {
      throw ResolutionError(
        description:
          "no link is called “\(remote.host)” (links: \(names)); for a host of that name, add a dot: \(remote.host)."
      )
    }
    do {
      try self.nameHost(remote, in: &request)
    } catch let error as ResolutionError {
      throw ResolutionError(description: "\(error), and no link has that name (links: \(names))")
    }
  }

  private func nameHost(
    _ remote: Endpoint, in request: inout Connectivity_V1_ExplainRequest
  ) throws {
    guard let first = try Resolver.hosts(of: remote.host).first else { return }
    if let link = first.link {
      // A request cannot bind traffic to a link, so the kernel may choose another one.
      throw ValidationError(
        "cannot explain traffic that is bound to a link: “connctl path \(first.address)%\(link)” shows its path"
      )
    }
    request.destination = first.address.description
    if remote.port != 0 { request.remotePort = UInt32(remote.port) }
    if let local = self.local {
      request.local = local.address.description
      if local.port != 0 { request.localPort = UInt32(local.port) }
    }
  }
}
