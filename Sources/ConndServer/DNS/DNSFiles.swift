import CLinux
import Connectivity
import Glibc
import Netlink
import UnixTransport

/// Reads whom this machine asks for names: the C library's file, what stands behind a stub that it names, and what links have
/// brought. Asks nobody: a resolver that hangs keeps nobody from the kernel.
struct DNSFiles {
  /// What all paths begin with; empty outside of tests.
  let root: String
  private let files: any FileReader

  /// - Parameter files: what reads them.
  init(root: String = "", from files: any FileReader = ResolverFiles()) {
    self.root = root
    self.files = files
  }

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
    do throws(FileError) {
      main = ResolvConf(try self.text(of: self.root + Self.main))
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
    // Neither promises to keep its form: what is not understood says nothing (systemd's resolved-link.c, networkd-state-file.c).
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

  /// `wlan0` of `wlan0.dhcpcd` and of `wlan0`; a link may have a dot in its name.
  private func link(ofFile name: String) -> String {
    if (try? self.files.answer(FileQuestion(.linkIndex, name)).get()) != nil { return name }
    return name.lastIndex(of: ".").map { String(name[..<$0]) } ?? name
  }

  private func name(ofLink index: UInt32) -> String? {
    (try? self.files.answer(FileQuestion(.linkName, "\(index)")).get())
      .map { String(decoding: $0, as: UTF8.self) }
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
    let question = FileQuestion(.names, self.root + directory)
    let names = (try? self.files.answer(question).get())?.split(separator: 0) ?? []
    return names.map { String(decoding: $0, as: UTF8.self) }.filter { !$0.hasPrefix(".") }.sorted()
      .compactMap { name in self.knownText(of: "\(directory)/\(name)").map { (name, $0) } }
  }

  /// `nil` where it cannot be read.
  private func knownText(of path: String) -> String? { try? self.text(of: self.root + path) }

  private func text(of path: String) throws(FileError) -> String {
    String(decoding: try self.files.answer(FileQuestion(.file, path)).get(), as: UTF8.self)
  }
}

/// The machine's files, as far as resolvers leave them.
struct ResolverFiles: FileReader {
  /// A machine has no more links with resolvers of their own.
  private static let mostFiles = 256
  /// In octets.
  private static let longestFile = 64 * 1024

  func answer(_ question: FileQuestion) -> FileAnswer {
    switch question.kind {
    case .file:
      do throws(SystemError) {
        return .success(try contents(of: question.subject, most: Self.longestFile))
      } catch {
        return .failure(FileError(code: error.code))
      }
    case .names:
      return self.names(in: question.subject)
    case .linkIndex:
      let index = if_nametoindex(question.subject)
      return index == 0 ? .failure(FileError(code: errno)) : .success(Array("\(index)".utf8))
    case .linkName:
      var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
      guard let index = UInt32(question.subject), if_indextoname(index, &name) != nil else {
        return .failure(FileError(code: ENXIO))
      }
      return .success(name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)))
    case .existence, .page, .linkTarget, .rootPage:
      return .failure(FileError(code: EINVAL))
    }
  }

  private func names(in directory: String) -> FileAnswer {
    guard let stream = opendir(directory) else { return .failure(FileError(code: errno)) }
    defer { closedir(stream) }
    var (names, count): ([UInt8], Int) = ([], 0)
    while let entry = readdir(stream), count < Self.mostFiles {
      let name = clinux_entry_name(entry)
      names += UnsafeRawBufferPointer(start: name, count: name.map(strlen) ?? 0)
      names.append(0)
      count += 1
    }
    return .success(names)
  }
}
