import CLinux
import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink
import TestKit
import TestTraits
import Testing

@testable import ConndServer

@Suite("Anonymizer")
struct AnonymizerTests {
  private let substitutes = Anonymizer(key: Array(0..<16))

  private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text)) }

  private static func commonLength(_ one: IPAddress, _ other: IPAddress) -> Int {
    var common = 0
    for (one, other) in zip(one.bytes, other.bytes) {
      common += (one ^ other).leadingZeroBitCount
      if one != other { break }
    }
    return common
  }

  // MARK: - Addresses

  @Test(
    "substitutes share as many leading bits as the addresses they stand for", .blocking,
    arguments: 0..<20)
  func prefixes(_ seed: Int) {
    var generator = SeededGenerator(seed: UInt64(seed))
    for count in [4, 16] {
      for _ in 0..<50 {
        let one = (0..<count).map { _ in UInt8(generator.number(0...255)) }
        var other = one
        let place = generator.number(0...(8 * count - 1))
        other[place / 8] ^= 0x80 >> UInt8(place % 8)
        for later in (place / 8 + 1)..<max(place / 8 + 1, count) {
          other[later] = UInt8(generator.number(0...255))
        }
        guard let first = IPAddress(bytes: one), let second = IPAddress(bytes: other) else {
          continue
        }
        #expect(
          Self.commonLength(self.substitutes.address(first), self.substitutes.address(second))
            == place, "\(first) \(second)")
      }
    }
  }

  @Test(
    "a substitute stays in the original's special range, and others stay outside", .blocking,
    arguments: [
      ("10.0.0.0", 8), ("100.64.0.0", 10), ("169.254.0.0", 16), ("172.16.0.0", 12),
      ("192.168.0.0", 16), ("224.0.0.0", 4), ("127.0.0.0", 8), ("0.0.0.0", 8), ("fe80::", 10),
      ("fd00::", 8), ("fc00::", 8), ("ff00::", 8), ("2000::", 3), ("64:ff9b::", 96),
      ("::ffff:0:0", 96),
    ])
  func ranges(_ text: String, _ length: Int) throws {
    let range = try #require(IPPrefix(self.address(text), length: length))
    var generator = SeededGenerator(seed: 7)
    for _ in 0..<200 {
      var bytes = range.address.bytes.map { $0 | UInt8(generator.number(0...255)) }
      for (place, byte) in range.address.bytes.enumerated() {
        let kept = UInt8(clamping: max(0, min(8, length - 8 * place)))
        let mask: UInt8 = kept == 0 ? 0 : 0xFF << (8 - kept)
        bytes[place] = byte & mask | bytes[place] & ~mask
      }
      let inside = try #require(IPAddress(bytes: bytes))
      #expect(range.contains(self.substitutes.address(inside)), "\(inside)")
      let any = (0..<bytes.count).map { _ in UInt8(generator.number(0...255)) }
      let outside = try #require(IPAddress(bytes: any))
      #expect(
        range.contains(outside) == range.contains(self.substitutes.address(outside)), "\(outside)")
    }
  }

  @Test(
    "addresses that identify no one stay",
    arguments: [
      "0.0.0.0", "127.0.0.1", "127.0.0.53", "224.0.0.251", "255.255.255.255", "::", "::1",
      "ff02::1", "ff02::fb", "ff05::1:3",
    ])
  func same(_ text: String) throws {
    #expect(self.substitutes.address(try self.address(text)).description == text)
  }

  @Test(
    "an IPv4 address embedded in an IPv6 one gets its usual substitute",
    arguments: ["::ffff:", "64:ff9b::", "::"])
  func embedded(_ prefix: String) throws {
    let inner = self.substitutes.address(try self.address("203.0.113.77"))
    let outer = self.substitutes.address(try self.address("\(prefix)203.0.113.77"))
    #expect(Array(outer.bytes.suffix(4)) == inner.bytes)
    #expect(inner.description != "203.0.113.77")
  }

  @Test(
    "no MAC address is left in an address derived from one, nor in its solicited-node group"
  )
  func interfaceIdentifiers() throws {
    let hardware: [UInt8] = [0x52, 0x54, 0x00, 0xAB, 0xCD, 0xEF]
    let tails = try ["fe80::5054:ff:feab:cdef", "2001:db8::5054:ff:feab:cdef", "ff02::1:ffab:cdef"]
      .map { Array(self.substitutes.address(try self.address($0)).bytes.suffix(3)) }
    for tail in tails { #expect(tail != Array(hardware.suffix(3))) }
  }

  @Test("the substitute of a block is a block")
  func blocks() throws {
    let block = self.substitutes.address(try self.address("203.0.112.0"), length: 22)
    #expect(IPPrefix(block, length: 22)?.address == block)
    let inside = self.substitutes.address(try self.address("203.0.113.9"))
    #expect(IPPrefix(block, length: 22)?.contains(inside) == true)
    #expect(
      self.substitutes.address(.unspecified(.ipv6), length: 0) == .unspecified(.ipv6))
  }

  @Test("another key gives other substitutes; the same key gives the same")
  func keys() throws {
    let address = try self.address("203.0.113.9")
    let first = self.substitutes.address(address)
    #expect(Anonymizer(key: Array(0..<16)).address(address) == first)
    #expect(
      (0..<8).contains { Anonymizer(key: [UInt8($0)]).address(address) != first })
  }

  @Test(
    "a substituted MAC address keeps its group and local bits",
    arguments: [
      [0x00, 0x1B, 0x21, 1, 2, 3], [0x02, 0, 0, 1, 2, 3], [0x33, 0x33, 0xFF, 1, 2, 3],
      [0x01, 0, 0x5E, 1, 2, 3],
    ] as [[UInt8]])
  func hardware(_ bytes: [UInt8]) {
    let substitute = self.substitutes.hardwareAddress(bytes)
    #expect(substitute[0] & 3 == bytes[0] & 3)
    #expect(substitute != bytes && substitute.count == 6)
    #expect(self.substitutes.hardwareAddress(bytes) == substitute)
  }

  @Test("an all-zero MAC address stays, and a tunnel's is treated as an IP address")
  func otherHardware() throws {
    #expect(self.substitutes.hardwareAddress([0, 0, 0, 0, 0, 0]) == [0, 0, 0, 0, 0, 0])
    #expect(self.substitutes.hardwareAddress([]) == [])
    #expect(
      self.substitutes.hardwareAddress([203, 0, 113, 9])
        == self.substitutes.address(try self.address("203.0.113.9")).bytes)
    let long = self.substitutes.hardwareAddress(Array(1...20))
    #expect(long.count == 20 && long != Array(1...20))
  }

  // MARK: - Names

  @Test(
    "names that the system assigns stay",
    arguments: [
      "lo", "eth0", "eth0.10", "enp3s0", "enP2p1s0f1np1", "eno1", "ens18", "wlan0", "wlp2s0",
      "wwan0", "ppp0", "tun0", "wg0", "br0", "docker0", "virbr0", "vpn0", "bond0", "vlan10",
      "tailscale0", "rmnet_data0", "wlan0.dhcpcd",
    ])
  func commonNames(_ name: String) { #expect(self.substitutes.linkName(name) == name) }

  @Test(
    "a name chosen by a user keeps at most a known prefix",
    arguments: [
      ("wg-acme", "wg"), ("br-0a1b2c3d4e5f", "br"), ("acme", "link"), ("lohengrin", "lo"),
      ("eth0.acme", "eth0."), ("wlan0.acme", "wlan0."), ("enx0a1b2c3d4e5f", "enx"),
      ("ethel", "eth"),
      ("veth8a7b6c5", "veth"), ("wwan4917012345", "wwan"),
    ])
  func chosenNames(_ name: String, _ beginning: String) {
    let substitute = self.substitutes.linkName(name)
    #expect(substitute.hasPrefix(beginning))
    #expect(ResolvConf.isLinkName(substitute))
    let chosen = name.hasPrefix(beginning) ? name.dropFirst(beginning.count) : name[...]
    #expect(!substitute.contains(chosen), "\(substitute)")
  }

  @Test("a name made from a MAC address gets that address's substitute")
  func namesByAddress() {
    let substitute = self.substitutes.hardwareAddress([0x0A, 0x1B, 0x2C, 0x3D, 0x4E, 0x5F])
    let digits = substitute.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    #expect(self.substitutes.linkName("enx0a1b2c3d4e5f") == "enx\(digits)")
  }

  @Test("subdomains stay subdomains, and common suffixes stay")
  func domains() {
    let (outer, inner) = (
      self.substitutes.domain("acme.example.com"),
      self.substitutes.domain("berlin.ACME.example.com")
    )
    #expect(inner.hasSuffix(".\(outer)"))
    #expect(!outer.contains("acme") && !outer.contains("com"))
    #expect(self.substitutes.domain("acme.lan").hasSuffix(".lan"))
    #expect(self.substitutes.domain("local") == "local")
    #expect(self.substitutes.domain(".") == ".")
  }

  @Test("a hidden network stays hidden")
  func wirelessNames() {
    #expect(self.substitutes.wirelessName([]) == [])
    #expect(self.substitutes.wirelessName([0, 0, 0]) == [0, 0, 0])
    let name = self.substitutes.wirelessName(Array("Home".utf8))
    #expect(String(decoding: name, as: UTF8.self).hasPrefix("ssid-"))
  }

  @Test("overrides for a network follow its substitute")
  func networks() {
    let ssid = Array("Home".utf8)
    let router: [UInt8] = [0x52, 0x54, 0, 1, 2, 3]
    var contents = OverrideFile.Contents()
    let (old, wireless) = (
      contents.key, WirelessNetwork(ssid: ssid, security: .personal)
    )
    let names = (self.substitutes.wirelessName(ssid), self.substitutes.hardwareAddress(router))
    contents.overrides = CostOverrides([
      .network(old.hash(of: wireless)): CostOverride(constrained: .on, user: 1000),
      .network(old.hash(ofGateway: router)): CostOverride(expensive: .on, user: 1000),
      .link("acme"): CostOverride(expensive: .off, user: 0),
    ])
    let other = self.substitutes.overrides(contents)
    #expect(other.key != old)
    let network = WirelessNetwork(ssid: names.0, security: .personal)
    #expect(other.overrides[.network(other.key.hash(of: network))]?.constrained == .on)
    #expect(other.overrides[.network(other.key.hash(ofGateway: names.1))]?.expensive == .on)
    #expect(other.overrides[.link(self.substitutes.linkName("acme"))]?.expensive == .off)
    #expect(
      self.substitutes.networkName(old.hash(of: wireless).description)
        == other.key.hash(of: network).description)
    #expect(self.substitutes.networkName("Home") == String(decoding: names.0, as: UTF8.self))
  }

  // MARK: - Files and configurations

  @Test(
    "only the lines that connd reads pass; a file that it does not read is empty",
    arguments: [
      (
        FileQuestion.Kind.page, "/sys/class/net/acme/uevent",
        "INTERFACE=acme\nDEVTYPE=wlan\nSECRET=acme\n", "DEVTYPE=wlan\n"
      ),
      (.page, "/sys/class/net/acme/ifindex", "7\n", "7\n"),
      (
        .linkTarget, "/sys/class/net/acme/device/driver", "../../bus/pci/drivers/iwlwifi", "iwlwifi"
      ),
      (.page, "/sys/class/net/acme/device/bInterfaceClass", "e0\nacme", "e0\n"),
      (.page, "/sys/class/net/acme/device/bInterfaceSubClass", "acme", ""),
      (.page, "/run/acme.pid", "4711\nacme", "4711"), (.page, "/run/pppd/acme.pid", "7\n", "7"),
      (.names, "/run/lock", "LCK..ttyUSB2\0LCK..ttyacme\0acme\0", "LCK..ttyUSB2\0"),
      (.rootPage, "/run/lock/LCK..ttyUSB2", "      4711\n", "4711"),
      (.linkTarget, "/sys/class/tty/ttyUSB2/device/driver", "../usb-serial/option1", "option1"),
      (
        .file, "/etc/resolv.conf", "# acme\noptions acme\nnameserver 127.0.0.53\n",
        "nameserver 127.0.0.53\n"
      ),
      (.file, "/run/systemd/netif/links/7", "ADMIN_STATE=acme\nDNS=127.0.0.1\n", "DNS=127.0.0.1\n"),
      (.names, "/run/systemd/netif/links", ".\0..\0acme\07\0", "7\0"),
    ])
  func files(_ kind: FileQuestion.Kind, _ path: String, _ text: String, _ rest: String) throws {
    let file = try #require(
      self.substitutes.file(FileQuestion(kind, path), Array(text.utf8)))
    #expect(String(decoding: file.answer, as: UTF8.self) == rest)
    #expect(!file.question.subject.contains("acme"))
    #expect(self.substitutes.file(FileQuestion(kind, "/home/acme"), Array(text.utf8)) == nil)
  }

  @Test(
    "a configuration keeps its meaning with substituted names, and loses all other text")
  func configurations() throws {
    for name in ["acme0", "eth0", "wlan0"] { _ = self.substitutes.linkName(name) }
    let text = """
      # Of Acme
      socket: /run/acme.sock
      destinations: {ipv4: [203.0.113.9], ipv6: ["2001:db8::9"]}
      links: [{match: "a*me0", medium: wifi, expensive: true}, {match: "*", constrained: true}]
      grace: {wifi: 1500ms}
      prefer: ipv6
      """
    let configuration = try Configuration.parse(text, file: "")
    let words = self.substitutes.text(of: configuration)
    #expect(!words.lowercased().contains("acme") && !words.contains("203.0.113.9"))
    let other = try Configuration.parse(words, file: "")
    #expect(other.prefer == .ipv6 && other.socket == nil)
    #expect(other.invalidations.carrierGrace[.wifi] == .milliseconds(1500))
    let rule = other.links.rule(for: self.substitutes.linkName("acme0"))
    #expect(rule?.medium == .wifi && rule?.expensive == true)
    #expect(other.links.rule(for: "eth0")?.constraint == .constrained)
    #expect(
      other.destinations.ipv4 == [self.substitutes.address(try self.address("203.0.113.9"))])
  }
}
