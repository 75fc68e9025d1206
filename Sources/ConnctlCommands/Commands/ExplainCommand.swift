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
    if let remote = self.remote {
      if self.link == nil, self.local == nil, try await self.isLink(remote, connector) {
        request.interface = remote.host
      } else {
        try self.name(remote, in: &request)
      }
    }
    let explanation = try await connector.withServices(at: self.socket) { [request] connd in
      var request = request
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
      return try await connd.call(ConndServices.Diagnostics.Explain.self, request)
    }
    try self.show(
      try .explanation(explanation),
      try self.console.style.explanation(
        explanation, host: request.hasDestination ? self.remote?.host : nil,
        link: request.hasInterface ? request.interface : nil))
  }

  /// Whether the argument is the name of a link, and not an address.
  private func isLink(_ remote: Endpoint, _ connector: Connector) async throws -> Bool {
    guard remote.port == 0, IPAddress(remote.host) == nil,
      !remote.host.contains("."), !remote.host.contains(":")
    else { return false }
    return try await connector.withServices(at: self.socket) { try await $0.links() }.contains {
      $0.isNamed(remote.host)
    }
  }

  private func name(
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
