import Connectivity
import Glibc
import UnixTransport

/// Reads whom this machine asks for names: the C library's file, what stands behind a stub that it names, and what links have
/// brought. Asks nobody: a resolver that hangs keeps nobody from the kernel.
struct DNSFiles {
  /// What all paths begin with; empty outside of tests.
  var root = ""

  static let main = "/etc/resolv.conf"
  /// Of systemd-resolved, with the servers behind its stub (systemd-resolved.service(8)).
  private static let resolved = "/run/systemd/resolve"
  /// Of systemd-networkd, for each of its links.
  private static let networkd = "/run/systemd/netif/links"
  private static let networkManager = "/run/NetworkManager"
  /// Of resolvconf and of openresolv, a file for each link and program: `wlan0.dhcpcd`.
  private static let resolvconf = ["/run/resolvconf/interface", "/run/resolvconf/interfaces"]

  /// The directories in which what is read may change.
  var directories: [String] {
    let own = [
      "/etc", Self.resolved, "\(Self.resolved)/netif", Self.networkd, Self.networkManager,
      "/run/resolvconf",
    ]
    return (own + Self.resolvconf).map { self.root + $0 }
  }

  /// What the files say now; `nil` where the first of them cannot be read.
  func read() -> DNSSettings? {
    let main: ResolvConf
    do throws(SystemError) {
      main = ResolvConf(try Self.text(of: self.root + Self.main))
    } catch {
      // Without it the C library asks this machine itself.
      guard error.code == ENOENT else { return nil }
      main = ResolvConf("")
    }
    return DNSSettings(
      servers: self.behindStub(main.servers) ?? main.servers, search: main.search,
      links: self.links())
  }

  /// Where all that is asked is a stub on this machine, those that it asks itself; `nil` where it is none, or does not say.
  private func behindStub(_ servers: [DNSSettings.Server]) -> [DNSSettings.Server]? {
    guard !servers.isEmpty, servers.allSatisfy(\.address.isLoopback) else { return nil }
    let stubs = ["127.0.0.53", "127.0.0.54"].compactMap { IPAddress($0) }
    let isResolved = servers.allSatisfy { stubs.contains($0.address) }
    let file =
      isResolved
      ? "\(Self.resolved)/resolv.conf" : "\(Self.networkManager)/no-stub-resolv.conf"
    return self.text(of: file).map { ResolvConf($0).servers }
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
        note(Self.link(ofFile: name), conf.servers, conf.search)
      }
    }
    // Neither promises to keep its form: what is not understood says nothing (systemd's resolved-link.c, networkd-state-file.c).
    for directory in ["\(Self.resolved)/netif", Self.networkd] {
      for (name, text) in self.files(in: directory) {
        guard let index = UInt32(name), let interface = Self.name(ofLink: index) else { continue }
        let values = Self.assignments(text)
        let servers = ResolvConf.servers(values["SERVERS"] ?? values["DNS"] ?? [])
        note(interface, servers, ResolvConf.domains(values["DOMAINS"] ?? []))
      }
    }
    return links.values.sorted { $0.interface < $1.interface }
  }

  /// `wlan0` of `wlan0.dhcpcd` and of `wlan0`; a link may have a dot in its name.
  private static func link(ofFile name: String) -> String {
    if if_nametoindex(name) != 0 { return name }
    return name.lastIndex(of: ".").map { String(name[..<$0]) } ?? name
  }

  private static func name(ofLink index: UInt32) -> String? {
    var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
    guard if_indextoname(index, &name) != nil else { return nil }
    return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// The words of each `KEY=value`.
  private static func assignments(_ text: String) -> [Substring: [Substring]] {
    var values: [Substring: [Substring]] = [:]
    for line in text.split(whereSeparator: \.isNewline) {
      guard let end = line.firstIndex(of: "=") else { continue }
      values[line[..<end]] = line[line.index(after: end)...].split(separator: " ")
    }
    return values
  }

  /// Those of a directory, in the order of their names.
  private func files(in directory: String) -> [(name: String, text: String)] {
    guard let stream = opendir(self.root + directory) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream), names.count < Self.mostFiles {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names.sorted().compactMap { name in
      self.text(of: "\(directory)/\(name)").map { (name, $0) }
    }
  }

  /// A machine has no more links with resolvers of their own.
  private static let mostFiles = 256
  /// In octets.
  private static let longestFile = 64 * 1024

  /// `nil` where it cannot be read.
  private func text(of path: String) -> String? {
    try? Self.text(of: self.root + path)
  }

  private static func text(of path: String) throws(SystemError) -> String {
    String(decoding: try contents(of: path, most: Self.longestFile), as: UTF8.self)
  }
}
