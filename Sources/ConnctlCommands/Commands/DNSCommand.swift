import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor

struct DNSCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "dns", "Show the DNS servers of this machine.",
    discussion: """
      Reads them from files such as resolv.conf. If the machine uses a local stub resolver, such as \
      systemd-resolved, shows the servers behind it. “connctl on dns” runs a command when they \
      change.
      """,
    examples: ["connctl dns", "connctl dns --json | jq -r '.servers[]'"],
    exit: "0 if a server is known, otherwise 1.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    let (status, foreign) = try await StatusCommand.status(self.socket, through: connector)
    if let foreign { self.console.remark(foreign.remark) }
    let settings = status.dns
    try self.show(.dns(settings ?? DNSSettings()), self.console.style.dns(settings))
    if settings?.servers.isEmpty ?? true { throw ExitStatus.doesNotHold }
  }
}

extension Style {
  /// Returns the text of `connctl dns`.
  func dns(_ settings: DNSSettings?) -> [String] {
    guard let settings else { return ["unknown"] }
    var rows = Table()
    func add(_ name: String, _ servers: [DNSSettings.Server], _ search: [String]) {
      let text = DNSSettings(servers: servers, search: search).text
      rows.add(Text(name), Text(text))
    }
    add("default", settings.servers, settings.search)
    for link in settings.links { add(link.interface, link.servers, link.search) }
    return rows.lines(self)
  }
}
