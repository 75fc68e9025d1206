import CLinux
import Connectivity
import Glibc

extension BridgeEntry {
  /// Reads an RTM_NEWNEIGH of AF_BRIDGE. Returns `nil` for other or malformed messages.
  init?(message: Message) {
    guard
      Int32(message.payload.uint8 ?? 0) == AF_BRIDGE,
      let index = message.payload.load(Int32.self, at: 4), index > 0,
      message.payload.count >= MemoryLayout<ndmsg>.size
    else { return nil }

    var hardwareAddress: [UInt8] = []
    var bridge: UInt32?
    var attributes = AttributeReader(message.payload, after: MemoryLayout<ndmsg>.size)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NDA_LLADDR): hardwareAddress = attribute.payload.array
      case Int(NDA_MASTER): bridge = attribute.payload.uint32
      default: break
      }
    }
    guard !attributes.isMalformed, !hardwareAddress.isEmpty else { return nil }
    self.init(hardwareAddress, port: UInt32(index), bridge: bridge)
  }
}
