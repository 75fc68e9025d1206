/// Replaces names of links. Names from the kernel, udev and well-known programs show the kind of a
/// link, so they stay. Any other name keeps at most the prefix that shows the kind.
extension Anonymizer {
  func computed(linkName name: String) -> String {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    let base = self.base(parts.first ?? "")
    // VLAN numbers, and the programs in the names of resolvconf's files, stay.
    let rest = parts.dropFirst().map { part in
      part.isDecimal || Self.programs.contains(part) ? String(part) : self.word(3, part)
    }
    return ([base] + rest).joined(separator: ".")
  }

  private func base(_ name: Substring) -> String {
    guard let prefix = Self.prefixes.first(where: { name.hasPrefix($0) }) else {
      return "link" + self.word(5, name)
    }
    let rest = name.dropFirst(prefix.count)
    if rest.isDecimal || rest.isEmpty && Self.whole.contains(prefix) { return String(name) }
    if Self.placed.contains(prefix) {
      if rest.isPlace { return String(name) }
      // udev's name that contains the MAC address.
      if rest.first == "x", rest.utf8.count == 13 {
        let digits = Array(rest.dropFirst())
        let octets = stride(from: 0, to: 12, by: 2).compactMap {
          UInt8(String(digits[$0...($0 + 1)]), radix: 16)
        }
        if octets.count == 6 {
          let substitute = self.hardwareAddress(octets).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
          }
          return prefix + "x" + substitute.joined()
        }
      }
    }
    return prefix + self.word(5, name)
  }

  private func word(_ count: Int, _ text: Substring) -> String {
    self.digits(count, .linkName, text)
  }

  /// The prefixes of names by location from udev (systemd.net-naming-scheme(7)).
  private static let placed: Set<String> = ["en", "eth", "ib", "sl", "wl", "ww"]
  /// The prefixes that are complete names.
  private static let whole: Set<String> = ["lo", "ovs-system"]
  /// Longer prefixes come first.
  private static let prefixes =
    [
      "bnep", "bond", "br", "ccmni", "cni", "docker", "dummy", "en", "erspan", "eth", "flannel",
      "geneve", "gre", "gretap", "ib", "ifb", "ip6gre", "ip6tnl", "ip6_vti", "ip_vti", "ipip",
      "ipvlan", "lo", "lxcbr", "macvlan", "macvtap", "ovs", "ovs-system", "pan", "podman", "ppp",
      "rev_rmnet",
      "rmnet", "rmnet_data", "sit", "sl", "tailscale", "tap", "team", "tun", "tunl", "usb", "vcan",
      "veth", "virbr", "vlan", "vmnet", "vnet", "vpn", "vrf", "vti", "vxlan", "wg", "wl", "wlan",
      "ww", "wwan", "xfrm", "zt",
    ].sorted { ($1.count, $0) < ($0.count, $1) }
  private static let programs: Set<Substring> = [
    "NetworkManager", "dhclient", "dhcp", "dhcp6", "dhcpcd", "inet", "inet6", "ip6", "ipv6",
    "openvpn", "ppp", "pppd", "ra", "slaac", "tun", "udhcpc", "wg",
  ]
}

extension Substring {
  fileprivate var isDecimal: Bool {
    (1...5).contains(self.utf8.count) && self.utf8.allSatisfy { (0x30...0x39).contains($0) }
  }

  /// Whether the text is a location such as `p3s0f1np0` or `o1`: letters for the kind, each
  /// followed by a decimal number.
  fileprivate var isPlace: Bool {
    var rest = self
    guard !rest.isEmpty else { return false }
    while !rest.isEmpty {
      if rest.hasPrefix("np") || rest.hasPrefix("nd") { rest = rest.dropFirst() }
      guard let letter = rest.first, "Pabcdfioprsuv".contains(letter) else { return false }
      let number = rest.dropFirst().prefix { ("0"..."9").contains($0) }
      guard (1...5).contains(number.count) else { return false }
      rest = rest.dropFirst(1 + number.count)
    }
    return true
  }
}
