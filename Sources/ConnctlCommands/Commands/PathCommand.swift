import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityProtocol
import ConnectivityMonitor
import GRPCCore

struct PathCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "path", abstract: "Show the path to a host for your own traffic.",
    discussion: """
      Shows all addresses of a host name. Ignores the interface of a link-local address; connctl \
      guard uses it.

      Exit status: 0 if the path to any address is satisfied; 1 if none is, or the name cannot be \
      resolved.
      """)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(help: "A host name or an address.")
  var host: String

  func run(through connector: Connector) async throws {
    let hosts = try Resolver.hosts(of: self.host)
    self.console.remarkLinks(of: hosts)
    let addresses = hosts.map(\.address)
    let paths = try await connector.withConnd(at: self.socket) { connd in
      var paths: [(destination: String, path: Path)] = []
      for address in addresses {
        paths.append((address.description, try await Self.path(to: address, connd)))
      }
      return paths
    }
    for (destination, path) in paths {
      if self.json {
        try self.console.print(.path(path, to: destination))
      } else {
        try self.console.print(self.console.style.path(path, to: destination))
      }
    }
    guard paths.contains(where: { $0.path.status == .satisfied }) else {
      throw ExitStatus.doesNotHold
    }
  }

  /// Queries the path for the calling user.
  private static func path(
    to address: IPAddress, _ connd: any Connectivity_V1_Connectivity.ClientProtocol
  ) async throws -> Path {
    var request = Connectivity_V1_GetPathRequest()
    request.destination = address.description
    return try Path(try await connd.getPath(request, options: .prompt).path)
  }
}
