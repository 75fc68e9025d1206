import ArgumentParser
import ConnectivityMonitor
import ConnectivityProtocol

struct LinksCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "links", "List the links, those of the default paths first.",
    discussion:
      "Virtual ports of bridges are only counted, unless a default path uses them. --tree, --all and --json show them.",
    examples: ["connctl links", "connctl links --tree", "connctl links --json | jq -r .name"])

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Flag(help: "Show the links below each link: those of VLANs, bonds and tunnels.")
  var tree = false

  @Flag(help: "Show also the virtual ports of bridges, such as those of containers.")
  var all = false

  func validate() throws {
    if self.tree, self.json {
      throw ValidationError("--tree cannot be used with --json, which has “lower” and “master”")
    }
  }

  func run(through connector: Connector) async throws {
    let links = try await self.answer(through: connector) { try await $0.links() }
    if self.json {
      for link in links { try self.console.print(.link(link)) }
    } else {
      try self.console.print(
        self.console.style.links(links, asTree: self.tree, isComplete: self.all))
    }
  }
}
