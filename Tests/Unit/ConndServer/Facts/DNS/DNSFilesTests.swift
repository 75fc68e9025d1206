import Connectivity
import Glibc
import TestKit
import Testing

@testable import ConndServer

/// DNS settings, read from files that a test writes.
@Suite("DNS files")
struct DNSFilesTests {
  /// A directory that stands for `/`.
  private struct Root {
    let directory: TemporaryDirectory

    init() throws {
      self.directory = try TemporaryDirectory()
      _ = try Command.run([
        "mkdir", "-p", self.directory.path + "/etc", self.directory.path + "/run",
      ])
    }

    func write(_ text: String, to file: String) throws {
      let path = "\(self.directory.path)/\(file)"
      _ = try Command.run([
        "mkdir", "-p", String(path[..<(path.lastIndex(of: "/") ?? path.endIndex)]),
      ])
      try self.directory.write(text, to: file)
    }

    /// Replaces the file atomically, as resolvers do.
    func replace(_ file: String, by text: String) throws {
      try self.write(text, to: "\(file).new")
      let path = "\(self.directory.path)/\(file)"
      #expect(rename("\(path).new", path) == 0)
    }

    var files: DNSFiles { DNSFiles(root: self.directory.path) }

    /// Formats settings as `192.0.2.53 / example.org / eth0: 192.0.2.1 lan`.
    func said(_ settings: DNSSettings?) -> String {
      guard let settings else { return "unknown" }
      func words(_ servers: [DNSSettings.Server], _ search: [String]) -> [String] {
        servers.map(\.description) + search
      }
      let links = settings.links.map { link in
        "\(link.interface): " + words(link.servers, link.search).joined(separator: " ")
      }
      let all = [words(settings.servers, []), words([], settings.search)]
      return (all.map { $0.joined(separator: " ") } + links).joined(separator: " / ")
    }

    func said() -> String { self.said(self.files.read()) }

    func said(_ watch: DNSWatch) -> String {
      guard case .dns(let settings)? = watch.process().last else { return "unknown" }
      return self.said(settings)
    }
  }

  @Test(
    "resolv.conf is read as the C library reads it",
    arguments: [
      (
        "nameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch example.org lan\n",
        "192.0.2.53 2001:db8::53 / example.org lan"
      ),
      // The last of several lines wins; extra words after the expected ones are ignored.
      (
        "domain example.com\nsearch example.org\nnameserver 192.0.2.53 192.0.2.54",
        "192.0.2.53 / example.org"
      ),
      ("nameserver fe80::1%eth0\n", "fe80::1%eth0 / "),
      ("# nameserver 192.0.2.1\n; search lan\n nameserver 192.0.2.2\noptions edns0\n", " / "),
      ("", " / "),
      // DHCP clients write these.
      (
        "nameserver 192.0.2.999\nnameserver\nsearch a\u{1b}[31mb $(reboot) ok.example\n",
        " / ok.example"
      ),
      ("nameserver fe80::1%eth0/../x\r\nnameserver 192.0.2.53\r\n", "192.0.2.53 / "),
    ])
  func resolvConf(_ text: String, _ said: String) throws {
    let root = try Root()
    try root.write(text, to: "etc/resolv.conf")
    #expect(root.said() == said)
  }

  @Test("no resolv.conf → the local host is the server; unreadable → unknown")
  func absent() throws {
    let root = try Root()
    #expect(root.said() == " / ")
    _ = try Command.run(["mkdir", root.directory.path + "/etc/resolv.conf"])
    #expect(root.said() == "unknown")
  }

  @Test("a resolv.conf beyond the size limit is unreadable")
  func endless() throws {
    let root = try Root()
    try root.write(String(repeating: "nameserver 192.0.2.53\n", count: 4000), to: "etc/resolv.conf")
    #expect(root.said() == "unknown")
    try root.write(String(repeating: "nameserver 192.0.2.53\n", count: 400), to: "etc/resolv.conf")
    #expect(root.files.read()?.servers.count == ResolvConf.maxServers)
  }

  @Test("behind a stub resolver, its upstream servers are reported if it lists them")
  func stubs() throws {
    let root = try Root()
    try root.write("nameserver 127.0.0.53\nsearch lan\n", to: "etc/resolv.conf")
    #expect(root.said() == "127.0.0.53 / lan")
    try root.write("nameserver 192.0.2.53\nsearch x\n", to: "run/systemd/resolve/resolv.conf")
    #expect(root.said() == "192.0.2.53 / lan")
    try root.write("nameserver 192.0.2.54\n", to: "run/NetworkManager/no-stub-resolv.conf")
    #expect(root.said() == "192.0.2.53 / lan")
    // The stub's own address may be any address of this machine.
    try root.write("nameserver 127.0.0.1\n", to: "etc/resolv.conf")
    #expect(root.said() == "192.0.2.54 / ")
    // A stub that is listed beside other servers is reported itself.
    try root.write("nameserver 127.0.0.53\nnameserver 192.0.2.99\n", to: "etc/resolv.conf")
    #expect(root.said() == "127.0.0.53 192.0.2.99 / ")
  }

  @Test("servers that came with a link are reported for that link")
  func links() throws {
    let root = try Root()
    try root.write("nameserver 192.0.2.53\n", to: "etc/resolv.conf")
    try root.write(
      "nameserver 192.0.2.1\nsearch lan\n", to: "run/resolvconf/interface/wlan7.dhcpcd")
    try root.write(
      "nameserver 192.0.2.1\nnameserver 2001:db8::1\n", to: "run/resolvconf/interface/wlan7.ra")
    try root.write("nameserver 198.51.100.1\n", to: "run/resolvconf/interfaces/tun0")
    // The first link of each network namespace.
    try root.write(
      "# This is private data. Do not parse.\nLLMNR=yes\nSERVERS=192.0.2.2:53#dns.example [2001:db8::2]:53\nDOMAINS=corp.example ~.\n",
      to: "run/systemd/resolve/netif/1")
    try root.write(
      "ADMIN_STATE=configured\nDNS=192.0.2.3\nDOMAINS=lan\n", to: "run/systemd/netif/links/1")
    try root.write("SERVERS=192.0.2.4\n", to: "run/systemd/resolve/netif/4000000000")
    #expect(
      root.said()
        == "192.0.2.53 /  / lo: 192.0.2.2 2001:db8::2 192.0.2.3 corp.example lan"
        + " / tun0: 198.51.100.1 / wlan7: 192.0.2.1 2001:db8::1 lan")
  }

  // MARK: - Watching

  /// Whether the watch signals a change within the given time.
  private func tells(_ watch: DNSWatch, within milliseconds: CInt = 10_000) -> Bool {
    var descriptors = watch.descriptors
    return poll(&descriptors, nfds_t(descriptors.count), milliseconds) > 0
  }

  @Test(
    "D7 a file is written, replaced, removed or relinked → it is reported; nothing else is"
  )
  func told() throws {
    let root = try Root()
    try root.write("nameserver 192.0.2.53\n", to: "etc/resolv.conf")
    let watch = DNSWatch(root.files)
    func news() -> String { self.tells(watch) ? root.said(watch) : "nothing" }
    #expect(root.said(watch) == "192.0.2.53 / ")
    #expect(!self.tells(watch, within: 0))

    try root.write("nameserver 192.0.2.54\n", to: "etc/resolv.conf")
    #expect(news() == "192.0.2.54 / ")
    try root.replace("etc/resolv.conf", by: "nameserver 192.0.2.55\n")
    #expect(news() == "192.0.2.55 / ")
    #expect(unlink(root.directory.path + "/etc/resolv.conf") == 0)
    #expect(news() == " / ")
    // A directory that did not exist before.
    try root.write("nameserver 192.0.2.56\n", to: "run/connman/resolv.conf")
    #expect(symlink("../run/connman/resolv.conf", root.directory.path + "/etc/resolv.link") == 0)
    #expect(
      rename(root.directory.path + "/etc/resolv.link", root.directory.path + "/etc/resolv.conf")
        == 0)
    #expect(news() == "192.0.2.56 / ")
    #expect(!self.tells(watch, within: 0))
    try root.replace("run/connman/resolv.conf", by: "nameserver 192.0.2.57\n")
    #expect(news() == "192.0.2.57 / ")
  }

  /// `/etc/resolv.conf` links to `/var/a/conf`, which links to `/var/run/b/resolv.conf`; `/var/run`
  /// links to `/run`.
  @Test(
    "D7 any link of the chain is replaced, by anything → it is reported",
    arguments: ["var/a/conf: file", "var/a/conf: ../../run/c/resolv.conf", "var/run: ../other"])
  func chain(replacement: String) throws {
    let root = try Root()
    for (folder, server) in [("run/b", "53"), ("run/c", "54"), ("other/b", "54"), ("var/a", "0")] {
      try root.write("nameserver 192.0.2.\(server)\n", to: "\(folder)/resolv.conf")
    }
    func link(_ name: String, to target: String) {
      #expect(symlink(target, "\(root.directory.path)/\(name)") == 0)
    }
    try root.write("", to: "etc/hosts")
    link("etc/resolv.conf", to: "../var/a/conf")
    link("var/a/conf", to: "../run/./b/resolv.conf")
    link("var/run", to: "../run")
    let watch = DNSWatch(root.files)
    #expect(root.said(watch) == "192.0.2.53 / ")
    #expect(!self.tells(watch, within: 0))

    let words = replacement.split(separator: ": ").map(String.init)
    #expect(unlink("\(root.directory.path)/\(words[0])") == 0)
    #expect(self.tells(watch))
    #expect(root.said(watch) == " / ")
    if words[1] == "file" {
      try root.write("nameserver 192.0.2.54\n", to: words[0])
    } else {
      link(words[0], to: words[1])
    }
    var last = ""
    while last != "192.0.2.54 / ", self.tells(watch) { last = root.said(watch) }
    #expect(last == "192.0.2.54 / ")
  }

  @Test("D7 a dangling link gets its target → the target is watched")
  func dangling() throws {
    let root = try Root()
    #expect(symlink("../run/connman/resolv.conf", root.directory.path + "/etc/resolv.conf") == 0)
    let watch = DNSWatch(root.files)
    #expect(root.said(watch) == " / ")
    var last = ""
    try root.write("nameserver 192.0.2.53\n", to: "run/connman/resolv.conf")
    while last != "192.0.2.53 / ", self.tells(watch) { last = root.said(watch) }
    #expect(last == "192.0.2.53 / ")
  }

  @Test("D7 a resolver that appears later, together with its directories, is noticed")
  func later() throws {
    let root = try Root()
    try root.write("nameserver 127.0.0.53\n", to: "etc/resolv.conf")
    let watch = DNSWatch(root.files)
    _ = watch.process()
    var last = ""
    try root.write("nameserver 192.0.2.53\n", to: "run/systemd/resolve/resolv.conf")
    while last != "192.0.2.53 / ", self.tells(watch) { last = root.said(watch) }
    #expect(last == "192.0.2.53 / ")
    try root.write("SERVERS=192.0.2.2\n", to: "run/systemd/resolve/netif/1")
    while !last.hasSuffix("lo: 192.0.2.2"), self.tells(watch) { last = root.said(watch) }
    #expect(last == "192.0.2.53 /  / lo: 192.0.2.2")
    // The directory disappears, and another one takes its name.
    _ = try Command.run(["rm", "-r", root.directory.path + "/run/systemd"])
    while last != "127.0.0.53 / ", self.tells(watch) { last = root.said(watch) }
    try root.write("nameserver 192.0.2.58\n", to: "run/systemd/resolve/resolv.conf")
    while last != "192.0.2.58 / ", self.tells(watch) { last = root.said(watch) }
    #expect(last == "192.0.2.58 / ")
  }

  @Test("T3 a file is emptied and written again with the same contents → the servers are not lost")
  func writtenInPlace() throws {
    let root = try Root()
    try root.write("nameserver 192.0.2.53\n", to: "etc/resolv.conf")
    var now = ContinuousClock.now
    let watch = DNSWatch(root.files) { now }
    #expect(root.said(watch) == "192.0.2.53 / ")
    try root.write("", to: "etc/resolv.conf")
    #expect(watch.process().isEmpty)
    #expect(watch.timeout == .milliseconds(100))
    now += .milliseconds(60)
    // Another file changes.
    #expect(watch.process().isEmpty)
    #expect(watch.timeout == .milliseconds(40))
    try root.write("nameserver 192.0.2.53\n", to: "etc/resolv.conf")
    #expect(root.said(watch) == "192.0.2.53 / ")
    #expect(watch.timeout == nil)

    // It stays empty.
    try root.write("", to: "etc/resolv.conf")
    #expect(watch.process().isEmpty)
    now += .milliseconds(100)
    #expect(watch.timeout == .zero)
    #expect(root.said(watch) == " / ")
    #expect(watch.timeout == nil)
    // From then on it has nothing to lose.
    try root.write("search lan\n", to: "etc/resolv.conf")
    #expect(root.said(watch) == " / lan")
  }
}
