package import Connectivity

extension Link {
  /// Whether programs create links of this kind, and create them again after a restart (I1). Other
  /// links are hardware, and only disappear if unplugged.
  package var isMadeByProgram: Bool { self.kind.map(Self.kindsOfPrograms.contains) ?? false }

  private static let kindsOfPrograms: Set = ["tun", "wireguard", "veth", "bridge", "vlan", "ppp"]
}
