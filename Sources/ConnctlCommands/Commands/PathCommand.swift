import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor

struct PathCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "path", "Show the path to a host for your own traffic.",
    discussion: """
      Shows all addresses of a host name. A port, and what follows the host in a URL, is ignored.
      """,
    examples: [
      "connctl path example.com", "connctl path fe80::1%eth0", "connctl path 192.0.2.7 --json",
    ],
    exit:
      "0 if the path to any address is satisfied; 1 if none is, or the name cannot be resolved.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(help: "A host name, an address or a URL.", transform: Endpoint.init)
  var host: Endpoint

  @Option(help: "The link that the traffic is bound to.", completion: .linkNames)
  var via: String?

  func run(through connector: Connector) async throws {
    let via = self.via
    var paths: [(destination: String, path: KernelPath)] = []
    let hosts = try Resolver.hosts(of: self.host.host)
    for host in hosts {
      let path =
        if via == nil, let link = host.link {
          try await self.path(to: host.address, by: link, through: connector)
        } else {
          try await connector.withServices(at: self.socket) {
            try await $0.path(to: host.address, via: via)
          }
        }
      paths.append((host.address.description + (host.link.map { "%\($0)" } ?? ""), path))
    }
    for (destination, path) in paths {
      try self.show(
        .path(path, to: destination), self.console.style.path(path, to: destination))
    }
    guard paths.contains(where: { $0.path.status == .satisfied }) else {
      throw ExitStatus.doesNotHold
    }
  }

  /// Queries the path of traffic that is bound to a link, as traffic to a link-local address is.
  private func path(
    to address: IPAddress, by link: String, through connector: Connector
  ) async throws -> KernelPath {
    let flows = FlowGuard(socket: self.socket, through: connector)
    flows.add(FlowGuard.Flow(remote: address, interface: link), id: 1)
    while let event = await flows.next() {
      switch event {
      case .absent(.disconnected(let error)): throw error
      case .absent(.elsewhere(let foreign)): throw foreign
      case .resumed, .question: continue
      case .flow(_, _, .refused(let refusal)): throw ConndError.invalidRequest(refusal.message)
      case .flow(_, _, let event): if let path = event.ownPath { return path }
      }
    }
    throw CancellationError()
  }
}
