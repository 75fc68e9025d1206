import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivitySession

struct DNSCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "dns", abstract: "Show whom this machine asks for names.",
    discussion: """
      As its files say (resolv.conf). Where the machine asks a stub of its own, systemd-resolved for one, the servers behind \
      it are shown. “connctl on dns” runs a command when they change.

      Exit status: 0 where a server is known, else 1.
      """)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through dialler: any Dialler) async throws {
    let settings = try await StatusCommand.status(self.socket, through: dialler).dns
    if self.json {
      try self.console.print(JSON.dns(settings ?? DNSSettings()))
    } else {
      try self.console.print(self.console.style.dns(settings))
    }
    if settings?.servers.isEmpty ?? true { throw ExitStatus.doesNotHold }
  }
}

extension Style {
  /// Returns the text of `connctl dns`.
  func dns(_ settings: DNSSettings?) -> [String] {
    guard let settings else { return ["not known"] }
    var rows = Columns()
    func add(_ name: String, _ servers: [DNSSettings.Server], _ search: [String]) {
      let words = DNSSettings(servers: servers, search: search).words
      rows.add(Text(name), Text(words))
    }
    add("all", settings.servers, settings.search)
    for link in settings.links { add(link.interface, link.servers, link.search) }
    return rows.lines(self)
  }
}
