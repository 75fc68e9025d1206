import CLinux
package import Connectivity
import Glibc

/// The interface to nl80211. One socket reports when links join or leave networks; another one
/// queries the networks.
///
/// nl80211 appears when the first Wi-Fi driver is loaded, which may happen at any time. The first
/// socket reports that, too. It joins the groups `mlme` and `config`, not `scan`. A filter drops
/// everything except changes of a link's membership in a network, and of its quality. Not
/// thread-safe: one thread owns it and polls `fileDescriptor` for reading. The descriptor is closed
/// on exec.
///
/// Implements rules I4 and Q1.
package final class NL80211 {
  private let socket: any DatagramSocket
  private let requester: WirelessRequester
  private var family: GenericFamily?

  /// - Throws: An error if generic netlink is unavailable.
  package init(from sockets: any SocketSource = KernelSockets()) throws(NetlinkError) {
    self.requester = try WirelessRequester(on: sockets.open(.wirelessRequester))
    self.socket = try sockets.open(.wirelessListener)
    guard Self.filter(self.socket) else { throw .last("attach a filter for nl80211") }
    try self.socket.bind()
    // The number of the controller's own group equals its id (genl_ctrl). The group announces new
    // and removed families.
    guard self.joins(UInt32(GENL_ID_CTRL)) else { throw .last("join nlctrl's group notify") }
    if let family = try self.requester.family() { try self.follow(family) }
  }

  /// The descriptor to poll for reading.
  package var fileDescriptor: CInt { self.socket.fileDescriptor }

  /// Queries a link by its index.
  package func link(_ index: UInt32) throws(NetlinkError) -> WirelessAnswer {
    // Without nl80211, no query is needed, and there is nothing to remember about the link.
    guard let family = self.family else { return .incomplete(nil) }
    return try self.requester.link(index, family)
  }

  /// Queries the signal of a link, or returns `nil` if it has no access point or the driver does
  /// not report one.
  package func signal(_ index: UInt32) throws(NetlinkError) -> WirelessSignal? {
    guard let family = self.family else { return nil }
    return try self.requester.signal(index, family)
  }

  /// Appends nl80211's notifications since the last call, without waiting.
  ///
  /// - Parameter limit: The number of events after which to stop.
  /// - Returns: Whether it stopped at the limit, so that more may be waiting.
  /// - Throws: An error if the socket is unusable.
  package func drain(into events: inout [KernelEvent], limit: Int) throws(NetlinkError) -> Bool {
    let end = events.count + limit
    while events.count < end {
      switch self.socket.receive() {
      case .datagram(let bytes): try self.read(bytes, &events)
      case .truncated, .overrun: events.append(.overrun)
      case .foreign: continue
      case .nothing: return false
      case .failed(let code):
        throw NetlinkError(operation: "read nl80211's notifications", code: code)
      }
    }
    return true
  }

  private func read(
    _ datagram: UnsafeRawBufferPointer, _ events: inout [KernelEvent]
  ) throws(NetlinkError) {
    var messages = MessageReader(datagram)
    while let message = messages.next() {
      if message.type == GENL_ID_CTRL {
        try self.readFamily(message)
      } else if message.type == self.family?.id {
        if let change = WirelessChange(message: message) {
          events.append(.wireless(change))
        } else if let change = SignalChange(message: message) {
          events.append(.signal(change))
        }
      }
    }
    if messages.isMalformed {
      events.append(.malformed("nl80211's message of \(datagram.count) bytes has a wrong length"))
    }
  }

  private func readFamily(_ message: Message) throws(NetlinkError) {
    guard let family = GenericFamily(message: message), family.name == wirelessFamily else {
      return
    }
    switch message.payload.uint8 {
    case UInt8(CTRL_CMD_NEWFAMILY): try self.follow(family)
    case UInt8(CTRL_CMD_DELFAMILY): self.family = nil
    default: break
    }
  }

  private func follow(_ family: GenericFamily) throws(NetlinkError) {
    self.family = family
    for name in ["mlme", "config"] {
      // The family may be gone by now.
      guard let group = family.groups[name], !self.joins(group), errno != ENOENT else { continue }
      throw .last("join nl80211's group \(name)")
    }
  }

  private func joins(_ group: UInt32) -> Bool {
    self.socket.set(NETLINK_ADD_MEMBERSHIP, CInt(bitPattern: group))
  }

  private static func filter(_ socket: any DatagramSocket) -> Bool {
    var program = Self.program.instructions
    return program.withUnsafeMutableBufferPointer { program in
      socket.setSocket(
        SO_ATTACH_FILTER, sock_fprog(len: UInt16(program.count), filter: program.baseAddress))
    }
  }

  /// The filter examines only a message's command, not its family.
  static var program: BPFProgram {
    var program = BPFProgram()
    program.add(BPF_LD | BPF_B | BPF_ABS, UInt32(MemoryLayout<nlmsghdr>.size))
    program.pass(
      ifOneOf: [UInt32(CTRL_CMD_NEWFAMILY), UInt32(CTRL_CMD_DELFAMILY)]
        + WirelessChange.Kind.allCases.map { UInt32($0.command) } + [
          NL80211_CMD_NOTIFY_CQM.rawValue
        ])
    program.drop()
    return program
  }
}

extension WirelessChange {
  /// Reads a notification. Returns `nil` if it does not concern a link's membership.
  init?(message: Message) {
    guard let kind = Kind.allCases.first(where: { $0.command == message.payload.uint8 }) else {
      return nil
    }
    var attributes = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    while let attribute = attributes.next() {
      if attribute.type == Int(NL80211_ATTR_IFINDEX.rawValue), let index = attribute.payload.uint32
      {
        self.init(kind, on: index)
        return
      }
    }
    return nil
  }
}

extension SignalChange {
  /// Reads NL80211_CMD_NOTIFY_CQM. Returns `nil` for another message, or for an event that is not
  /// about the link's quality.
  init?(message: Message) {
    guard message.payload.uint8 == UInt8(NL80211_CMD_NOTIFY_CQM.rawValue) else { return nil }
    var (link, kind): (UInt32?, Kind?)
    var attributes = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NL80211_ATTR_IFINDEX.rawValue): link = attribute.payload.uint32
      case Int(NL80211_ATTR_CQM.rawValue): kind = Kind(attribute.payload)
      default: break
      }
    }
    guard let link, let kind else { return nil }
    self.init(kind, on: link)
  }
}

extension SignalChange.Kind {
  /// Reads NL80211_ATTR_CQM.
  fileprivate init?(_ bytes: Bytes) {
    var attributes = AttributeReader(bytes)
    while let attribute = attributes.next() {
      switch (UInt32(attribute.type), attribute.payload.uint32) {
      case (
        NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT.rawValue,
        NL80211_CQM_RSSI_THRESHOLD_EVENT_LOW.rawValue
      ):
        self = .low
      case (
        NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT.rawValue,
        NL80211_CQM_RSSI_THRESHOLD_EVENT_HIGH.rawValue
      ):
        self = .high
      case (NL80211_ATTR_CQM_PKT_LOSS_EVENT.rawValue, .some),
        (NL80211_ATTR_CQM_BEACON_LOSS_EVENT.rawValue, _):
        self = .framesLost
      default: continue
      }
      return
    }
    return nil
  }
}

extension WirelessChange.Kind {
  fileprivate var command: UInt8 {
    switch self {
    case .joined: UInt8(NL80211_CMD_CONNECT.rawValue)
    case .roamed: UInt8(NL80211_CMD_ROAM.rawValue)
    case .left: UInt8(NL80211_CMD_DISCONNECT.rawValue)
    case .made: UInt8(NL80211_CMD_NEW_INTERFACE.rawValue)
    case .removed: UInt8(NL80211_CMD_DEL_INTERFACE.rawValue)
    }
  }
}
