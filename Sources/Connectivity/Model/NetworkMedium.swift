/// The medium of a path's lowest link.
@nonexhaustive public enum NetworkMedium: String, Hashable, Sendable, CaseIterable {
  case wired
  case wifi
  case cellular
  case bluetooth
  case loopback
  /// A tunnel with an unknown underlay.
  case tunnel
  case unknown
}

extension NetworkMedium {
  /// Everything that depends on a medium alone. A class, because copies must cost nothing.
  package final class Traits: Sendable {
    /// The number in connectivity.proto.
    package let number: Int
    /// The category of a network that the flags do not make cellular (K1).
    package let category: NetworkCategory
    /// Whether traffic costs money if no more trusted source answers, or `nil` if unknown (I8).
    package let isMetered: Bool?
    /// The sort position of the medium in `connctl links`.
    package let place: Int
    /// How long connections survive the loss of the carrier by default (I10).
    package let grace: Duration
    /// Whether gateways have MAC addresses.
    package let hasHardwareAddresses: Bool
    /// The evidence of a typical link, for simulated networks.
    package let typical: (source: KernelPath.Evidence.Source, value: String)
    package let signs: Signs

    fileprivate init(
      number: Int, category: NetworkCategory, isMetered: Bool?, place: Int, grace: Duration = .zero,
      hasHardwareAddresses: Bool = false, typical: (KernelPath.Evidence.Source, String),
      signs: Signs = Signs()
    ) {
      self.number = number
      self.category = category
      self.isMetered = isMetered
      self.place = place
      self.grace = grace
      self.hasHardwareAddresses = hasHardwareAddresses
      self.typical = typical
      self.signs = signs
    }
  }

  /// The properties of links that show the medium, in the order of rule K5.
  package struct Signs: Sendable {
    /// `IFLA_INFO_KIND`.
    package var kinds: [String] = []
    /// ARPHRD types (include/uapi/linux/if_arp.h), with their names.
    package var hardwareTypes: [UInt16: String] = [:]
    /// `DEVTYPE`, which drivers set with `SET_NETDEV_DEVTYPE`.
    package var deviceTypes: [String] = []
    /// Drivers of serial lines, for ppp links.
    package var lineDrivers: [String] = []
    /// Names of drivers, because not all drivers set a device type.
    package var drivers: [String] = []
    /// Prefixes of names.
    package var names: [String] = []
  }

  package var traits: Traits {
    switch self {
    case .wired: .wired
    case .wifi: .wifi
    case .cellular: .cellular
    case .bluetooth: .bluetooth
    case .loopback: .loopback
    case .tunnel: .tunnel
    case .unknown: .unknown
    }
  }
}

extension NetworkMedium.Traits {
  // Plain Ethernet is in the code of rule K5, because it needs the absence of other signs.
  fileprivate static let wired = NetworkMedium.Traits(
    number: 1, category: .wired, isMetered: false, place: 0, hasHardwareAddresses: true,
    typical: (.hardwareType, "ether"),
    signs: .init(hardwareTypes: [32: "infiniband"], deviceTypes: ["dsa", "gadget"]))

  fileprivate static let wifi = NetworkMedium.Traits(
    number: 2, category: .wifi, isMetered: false, place: 1, grace: .seconds(1),
    hasHardwareAddresses: true, typical: (.deviceType, "wlan"),
    signs: .init(
      hardwareTypes: [801: "ieee80211", 802: "ieee80211_prism", 803: "ieee80211_radiotap"],
      deviceTypes: ["wlan"]))

  // Only modems for mobile networks use the drivers of serial lines (drivers/usb/serial: option.c,
  // qcserial.c, sierra.c, ipw.c; drivers/net/usb/hso.c, drivers/tty/nozomi.c). `cdc_acm` is missing
  // because boards, landline phones and Linux gadgets use it too. They announce themselves like
  // modems (02/02/01, AT commands), so nothing distinguishes them. A guess would make a board's
  // link expensive.
  //
  // The names are from vendors' kernels. `ppp` is missing because it is DSL as often as a modem.
  fileprivate static let cellular = NetworkMedium.Traits(
    number: 3, category: .other, isMetered: true, place: 3, typical: (.deviceType, "wwan"),
    signs: .init(
      kinds: ["rmnet", "wwan"],
      hardwareTypes: [519: "rawip", 820: "phonet", 821: "phonet_pipe"], deviceTypes: ["wwan"],
      lineDrivers: ["hso", "ipw", "nozomi", "option1", "qcserial", "sierra"],
      drivers: [
        "cdc_mbim", "hso", "huawei_cdc_ncm", "iosm", "mhi_wwan_mbim", "mtk_t7xx", "option",
        "qmi_wwan", "sierra_net",
      ],
      names: ["rmnet", "rev_rmnet", "ccmni", "wwan"]))

  // A Bluetooth network is usually that of a phone.
  fileprivate static let bluetooth = NetworkMedium.Traits(
    number: 4, category: .other, isMetered: true, place: 2, hasHardwareAddresses: true,
    typical: (.deviceType, "bluetooth"),
    signs: .init(deviceTypes: ["bluetooth"], drivers: ["bnep"]))

  fileprivate static let loopback = NetworkMedium.Traits(
    number: 5, category: .other, isMetered: false, place: 6, typical: (.hardwareType, "loopback"),
    signs: .init(hardwareTypes: [772: "loopback"]))

  // Links that send their packets over another path (K6).
  fileprivate static let tunnel = NetworkMedium.Traits(
    number: 6, category: .other, isMetered: nil, place: 4, typical: (.kind, "wireguard"),
    signs: .init(
      kinds: [
        "amt", "bareudp", "erspan", "geneve", "gre", "gretap", "gtp", "ip6erspan", "ip6gre",
        "ip6gretap", "ip6tnl", "ipip", "ovpn", "ovpn-dco", "sit", "tun", "vti", "vti6", "vxlan",
        "wireguard", "xfrm",
      ],
      hardwareTypes: [768: "tunnel", 769: "tunnel6", 776: "sit", 778: "gre", 823: "ip6gre"],
      deviceTypes: ["l2tpeth"]))

  // Kinds with an unknown remote end. A ppp link may use a modem, DSL or a tunnel.
  fileprivate static let unknown = NetworkMedium.Traits(
    number: 7, category: .other, isMetered: nil, place: 5, typical: (.none, ""),
    signs: .init(kinds: ["dummy", "ifb", "netdevsim", "netkit", "nlmon", "ppp", "veth"]))
}
