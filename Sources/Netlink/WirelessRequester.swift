import CLinux
import Connectivity
import Glibc

/// Asks nl80211 for Wi-Fi links. None of its questions needs a privilege, and none makes a radio do anything.
///
/// Not thread-safe: one thread owns it.
final class WirelessRequester {
  private let requester: Requester

  init(on socket: any DatagramSocket) throws(NetlinkError) {
    self.requester = try Requester(on: socket)
  }

  /// The family as it is now; `nil` where no driver of Wi-Fi is loaded.
  func family() throws(NetlinkError) -> GenericFamily? {
    try self.requester.family(wirelessFamily)
  }

  /// A link by its index.
  ///
  /// - Throws: where nl80211 does not even say whether it is one of Wi-Fi.
  func link(_ index: UInt32, _ family: GenericFamily) throws(NetlinkError) -> WirelessAnswer {
    var request = self.request(UInt8(NL80211_CMD_GET_INTERFACE.rawValue), family)
    request.put(Int(NL80211_ATTR_IFINDEX.rawValue), index)
    // nl80211 knows no interface of this index (__cfg80211_wdev_from_attrs).
    let interface = try self.requester.object(request, absentIf: [ENODEV]) {
      WirelessInterface(message: $0)
    }
    guard let interface else { return .notWireless }
    guard interface.role.isMember else { return .link(WirelessLink(role: interface.role)) }
    let joined: JoinedAccessPoint?
    do throws(NetlinkError) {
      joined = try self.joined(index, family)
    } catch {
      // What was found by a scan changes while it is listed, maybe each time.
      return .incomplete(
        WirelessLink(
          role: interface.role, network: interface.ssid.map { WirelessNetwork(ssid: $0) }))
    }
    // Kernels around 6.1 name no SSID where the supplicant authenticates by itself: the scan's result does.
    return .link(
      WirelessLink(
        role: interface.role,
        network: (interface.ssid ?? joined?.ssid).map {
          WirelessNetwork(ssid: $0, security: joined?.security)
        },
        accessPoint: joined?.accessPoint))
  }

  /// How well a member hears its access point; `nil` where it has joined none, or the driver does not say.
  func signal(_ index: UInt32, _ family: GenericFamily) throws(NetlinkError) -> WirelessSignal? {
    try self.first(UInt8(NL80211_CMD_GET_STATION.rawValue), index, family) {
      WirelessSignal(message: $0)
    }
  }

  /// What the link has joined, as the last scan found it; `nil` where that is nothing, or the driver does not say.
  private func joined(
    _ index: UInt32, _ family: GenericFamily
  ) throws(NetlinkError) -> JoinedAccessPoint? {
    try self.first(UInt8(NL80211_CMD_GET_SCAN.rawValue), index, family) {
      JoinedAccessPoint(message: $0)
    }
  }

  /// The first object of a list that `read` takes for one; `nil` where there is none.
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

  /// The link may be gone or down by now. EOPNOTSUPP: a driver that does not say.
  private static let absences: Set<CInt> = [ENODEV, EINVAL, EOPNOTSUPP, ENETDOWN]

  private func request(_ command: UInt8, _ family: GenericFamily, isDump: Bool = false) -> Request {
    Request(
      Int(family.id), "nl80211's command \(command)", isDump: isDump,
      header: genlmsghdr(cmd: command, version: 1, reserved: 0))
  }
}

/// The name of nl80211's family.
let wirelessFamily = "nl80211"

/// What NL80211_CMD_NEW_INTERFACE says.
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

  /// Whether the network is another's.
  fileprivate var isMember: Bool { self == .station || self == .p2pClient }
}
