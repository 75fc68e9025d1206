import CLinux
import Connectivity
import Glibc

/// Queries nl80211 about Wi-Fi links. No query needs a privilege or makes a radio transmit.
///
/// Not thread-safe: one thread owns it.
final class WirelessRequester {
  private let requester: Requester

  init(on socket: any DatagramSocket) throws(NetlinkError) {
    self.requester = try Requester(on: socket)
  }

  /// Returns the current family, or `nil` if no Wi-Fi driver is loaded.
  func family() throws(NetlinkError) -> GenericFamily? {
    try self.requester.family(wirelessFamily)
  }

  /// Queries a link by its index.
  ///
  /// - Throws: An error if nl80211 does not even answer whether the link is a Wi-Fi link.
  func link(_ index: UInt32, _ family: GenericFamily) throws(NetlinkError) -> WirelessAnswer {
    var request = self.request(UInt8(NL80211_CMD_GET_INTERFACE.rawValue), family)
    request.put(Int(NL80211_ATTR_IFINDEX.rawValue), index)
    // ENODEV: nl80211 has no interface with this index (__cfg80211_wdev_from_attrs).
    let interface = try self.requester.object(request, absentIf: [ENODEV]) {
      WirelessInterface(message: $0)
    }
    guard let interface else { return .notWireless }
    guard interface.role.isMember else { return .link(WirelessLink(role: interface.role)) }
    let joined: JoinedAccessPoint?
    do throws(NetlinkError) {
      joined = try self.joined(index, family)
    } catch {
      // The scan results keep changing while they are listed.
      return .incomplete(
        WirelessLink(
          role: interface.role, network: interface.ssid.map { WirelessNetwork(ssid: $0) }))
    }
    // Kernels around 6.1 report no SSID if the supplicant authenticates by itself, but the scan
    // result has it.
    return .link(
      WirelessLink(
        role: interface.role,
        network: (interface.ssid ?? joined?.ssid).map {
          WirelessNetwork(ssid: $0, security: joined?.security)
        },
        accessPoint: joined?.accessPoint))
  }

  /// Queries a station's signal, or returns `nil` if it has joined no network or the driver does
  /// not report one.
  func signal(_ index: UInt32, _ family: GenericFamily) throws(NetlinkError) -> WirelessSignal? {
    try self.first(UInt8(NL80211_CMD_GET_STATION.rawValue), index, family) {
      WirelessSignal(message: $0)
    }
  }

  /// Returns the joined network from the last scan, or `nil` if the link has joined none or the
  /// driver does not report it.
  private func joined(
    _ index: UInt32, _ family: GenericFamily
  ) throws(NetlinkError) -> JoinedAccessPoint? {
    try self.first(UInt8(NL80211_CMD_GET_SCAN.rawValue), index, family) {
      JoinedAccessPoint(message: $0)
    }
  }

  /// Returns the first object of a list for which `read` returns a value, or `nil`.
  private func first<Object>(
    _ command: UInt8, _ index: UInt32, _ family: GenericFamily, _ read: (Message) -> Object?
  ) throws(NetlinkError) -> Object? {
    var request = self.request(command, family, isDump: true)
    request.put(Int(NL80211_ATTR_IFINDEX.rawValue), index)
    do throws(NetlinkError) {
      return try self.requester.objects(request, read: read).first
    } catch {
      guard Self.absences.contains(error.code) else { throw error }
      return nil
    }
  }

  /// The link may be gone or down by now. EOPNOTSUPP: the driver does not support the query.
  private static let absences = [ENODEV, EINVAL, EOPNOTSUPP, ENETDOWN]

  private func request(_ command: UInt8, _ family: GenericFamily, isDump: Bool = false) -> Request {
    Request(
      Int(family.id), "nl80211's command \(command)", isDump: isDump,
      header: genlmsghdr(cmd: command, version: 1, reserved: 0))
  }
}

/// The name of the nl80211 family.
let wirelessFamily = "nl80211"

/// The contents of NL80211_CMD_NEW_INTERFACE.
struct WirelessInterface: Hashable {
  var role: WirelessRole
  var ssid: [UInt8]?

  init?(message: Message) {
    var role: WirelessRole?
    var attributes = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NL80211_ATTR_IFTYPE.rawValue):
        role = attribute.payload.uint32.map(WirelessRole.init(type:))
      case Int(NL80211_ATTR_SSID.rawValue): self.ssid = attribute.payload.ssid
      default: break
      }
    }
    guard !attributes.isMalformed, let role else { return nil }
    self.role = role
  }
}

extension WirelessRole {
  fileprivate init(type: UInt32) {
    self =
      switch nl80211_iftype(type) {
      case NL80211_IFTYPE_STATION: .station
      case NL80211_IFTYPE_AP, NL80211_IFTYPE_AP_VLAN: .accessPoint
      case NL80211_IFTYPE_ADHOC: .adHoc
      case NL80211_IFTYPE_MESH_POINT: .mesh
      case NL80211_IFTYPE_P2P_CLIENT: .p2pClient
      case NL80211_IFTYPE_P2P_GO: .p2pGroupOwner
      case NL80211_IFTYPE_MONITOR: .monitor
      default: .other
      }
  }

  /// Whether the link is a client of another device's network.
  fileprivate var isMember: Bool { self == .station || self == .p2pClient }
}
