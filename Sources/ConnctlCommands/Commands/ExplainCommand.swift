import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityProtocol
import ConnectivitySession

struct ExplainCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain",
    abstract: "Show why: rule, table, route, gateway, links, medium, flags, category.",
    discussion: """
      A name stands for its first address, no name for the internet. The link of a link-local address is not asked for: \
      connctl guard does.

      Exit status: 0 also where no path is satisfied, 1 if the name cannot be resolved.
      """)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(help: "A host's name, or an address.")
  var host: String?

  func run(through dialler: any Dialler) async throws {
    var request = Connectivity_V1_ExplainRequest()
    if let host = self.host, let first = try Resolver.hosts(of: host).first {
      self.console.remarkLinks(of: [first])
      request.destination = first.address.description
    }
    let explanation = try await dialler.withConnd(at: self.socket) { [request] connd in
      try await connd.explain(request, options: .prompt)
    }
    if self.json {
      try self.console.print(try JSON.explanation(explanation))
    } else {
      try self.console.print(
        try self.console.style.explanation(explanation, host: self.host))
    }
  }
}
