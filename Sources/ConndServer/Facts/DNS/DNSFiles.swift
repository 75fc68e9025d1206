import Connectivity
import Glibc
import LinuxSupport

/// A reader of this machine's DNS servers: from the C library's file, from behind a local stub, and
/// from each link's settings. Sends no queries, so a hanging resolver cannot delay kernel messages.
struct DNSFiles {
  /// The prefix of all paths. Empty outside of tests.
  let root: String
  private let files: any FileReader

  init(root: String = "", from files: any FileReader = MachineFiles()) {
    self.root = root
    self.files = files
  }

  static let main = "/etc/resolv.conf"
  /// The directory of systemd-resolved, with the servers behind its stub
  /// (systemd-resolved.service(8)).
  private static let resolved = "/run/systemd/resolve"
  /// The directory of systemd-networkd, with a file for each of its links.
  private static let networkd = "/run/systemd/netif/links"
  private static let networkManager = "/run/NetworkManager"
  /// The directories of resolvconf and openresolv, with a file for each link and program:
  /// `wlan0.dhcpcd`.
  private static let resolvconf = ["/run/resolvconf/interface", "/run/resolvconf/interfaces"]

  /// The directories in which the files may change.
  var directories: [String] {
    let own = [
      "/etc", Self.resolved, "\(Self.resolved)/netif", Self.networkd, Self.networkManager,
      "/run/resolvconf",
    ]
    return (own + Self.resolvconf).map { self.root + $0 }
  }

  /// Whether the main file exists.
  var exist: Bool { self.knownText(of: Self.main) != nil }

  /// Reads the current settings, or returns `nil` if the main file cannot be read.
  func read() -> DNSSettings? {
    let main: ResolvConf
    do throws(SystemError) {
      main = ResolvConf(try self.text(of: self.root + Self.main))
    } catch {
      // Without the file, the C library queries a server on this machine.
      guard error.code == ENOENT else { return nil }
      main = ResolvConf("")
    }
    return DNSSettings(
      servers: self.behindStub(main.servers) ?? main.servers, search: main.search,
      links: self.links())
  }

  /// Returns the servers behind a stub on this machine, or `nil` without a stub or if its servers
  /// are unknown.
  private func behindStub(_ servers: [DNSSettings.Server]) -> [DNSSettings.Server]? {
    guard !servers.isEmpty, servers.allSatisfy(\.address.isLoopback) else { return nil }
    let stubs = ["127.0.0.53", "127.0.0.54"].compactMap { IPAddress($0) }
    let isResolved = servers.allSatisfy { stubs.contains($0.address) }
    let file =
      isResolved
      ? "\(Self.resolved)/resolv.conf" : "\(Self.networkManager)/no-stub-resolv.conf"
    return self.knownText(of: file).map { ResolvConf($0).servers }
  }

  // MARK: - Links

  private func links() -> [DNSSettings.Link] {
    var links: [String: DNSSettings.Link] = [:]
    func note(_ interface: String, _ servers: [DNSSettings.Server], _ search: [String]) {
      guard ResolvConf.isLinkName(interface), !servers.isEmpty || !search.isEmpty else { return }
      var link = links[interface] ?? DNSSettings.Link(interface: interface)
      link.servers += servers.filter { !link.servers.contains($0) }
      link.search += search.filter { !link.search.contains($0) }
      links[interface] = link
    }
    for directory in Self.resolvconf {
      for (name, text) in self.files(in: directory) {
        let conf = ResolvConf(text)
        note(self.link(ofFile: name), conf.servers, conf.search)
      }
    }
    // Neither format is guaranteed to stay the same, so anything unknown is ignored (systemd's
    // resolved-link.c, networkd-state-file.c).
    for directory in ["\(Self.resolved)/netif", Self.networkd] {
      for (name, text) in self.files(in: directory) {
        guard let index = UInt32(name), let interface = self.name(ofLink: index) else { continue }
        let values = Self.assignments(text)
        let servers = ResolvConf.servers(values["SERVERS"] ?? values["DNS"] ?? [])
        note(interface, servers, ResolvConf.domains(values["DOMAINS"] ?? []))
      }
    }
    return links.values.sorted { $0.interface < $1.interface }
  }

  /// Returns a file's link: `wlan0` for `wlan0.dhcpcd` and `wlan0`. A link's name may have a dot.
  private func link(ofFile name: String) -> String {
    if (try? self.files.answer(FileQuestion(.linkIndex, name)).get()) != nil { return name }
    return name.lastIndex(of: ".").map { String(name[..<$0]) } ?? name
  }

  private func name(ofLink index: UInt32) -> String? {
    (try? self.files.answer(FileQuestion(.linkName, "\(index)")).get())
      .map { String(decoding: $0, as: UTF8.self) }
  }

  /// Returns the words of each `KEY=value`.
  private static func assignments(_ text: String) -> [Substring: [Substring]] {
    var values: [Substring: [Substring]] = [:]
    for line in text.split(whereSeparator: \.isNewline) {
      guard let end = line.firstIndex(of: "=") else { continue }
      values[line[..<end]] = line[line.index(after: end)...].split(separator: " ")
    }
    return values
  }

  /// Returns the files of a directory, in the order of their names.
  private func files(in directory: String) -> [(name: String, text: String)] {
    self.files.names(in: self.root + directory, limit: FileQuestion.maxLinkFiles)
      .filter { !$0.hasPrefix(".") }.sorted().compactMap { name in
        self.knownText(of: "\(directory)/\(name)").map { (name, $0) }
      }
  }

  /// Returns the text of a file, or `nil` if it cannot be read.
  private func knownText(of path: String) -> String? { try? self.text(of: self.root + path) }

  private func text(of path: String) throws(SystemError) -> String {
    String(decoding: try self.files.answer(FileQuestion(.file, path)).get(), as: UTF8.self)
  }
}
