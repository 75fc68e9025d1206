import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol

struct ExplainCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "explain", "Explain a path: rule, table, route, gateway, links, medium, flags, category.",
    discussion: """
      Uses the first address of a host name. Without a host, explains the path to the internet.

      With the host's port, and --local with a port, explains that TCP connection, and shows the \
      state of its socket.
      """,
    examples: [
      "connctl explain", "connctl explain example.com",
      "connctl explain 203.0.113.9:22 --local 192.0.2.7:42912",
    ],
    exit: "0 even if no path is satisfied, 1 if the name cannot be resolved.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(
    help: "A host name or an address, optionally with a port: [2001:db8::1]:443.",
    transform: Endpoint.init)
  var remote: Endpoint?

  @Option(
    help: ArgumentHelp(
      "The connection's own address, optionally with a port.", valueName: "address"),
    transform: LocalEndpoint.init)
  var local: LocalEndpoint?

  func validate() throws {
    if self.local != nil, self.remote == nil { throw ValidationError("--local needs a host") }
  }

  func run(through connector: Connector) async throws {
    var request = Connectivity_V1_ExplainRequest()
    if let remote = self.remote, let first = try Resolver.hosts(of: remote.host).first {
      if let link = first.link {
        // The request has no link, and the kernel may choose another one.
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
    let explanation = try await connector.withServices(at: self.socket) { [request] connd in
      try await connd.diagnostics.explain(request, options: .prompt)
    }
    if self.json {
      try self.console.print(try JSON.explanation(explanation))
    } else {
      try self.console.print(
        try self.console.style.explanation(explanation, host: self.remote?.host))
    }
  }
}
