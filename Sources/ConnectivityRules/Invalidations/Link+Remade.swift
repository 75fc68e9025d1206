package import Connectivity

extension Link {
  /// Whether programs make such a link, and make it again after a restart (I1). Other links are
  /// hardware, which is unplugged.
  package var isMadeByProgram: Bool { self.kind.map(Self.kindsOfPrograms.contains) ?? false }

  private static let kindsOfPrograms: Set = ["tun", "wireguard", "veth", "bridge", "vlan", "ppp"]
}
