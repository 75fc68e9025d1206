import CLinux

/// A family of generic netlink: the type number of its messages and the numbers of its multicast
/// groups. Both are assigned when the module of the family is loaded
/// (Documentation/userspace-api/netlink/intro.rst).
struct GenericFamily: Hashable {
  var name: String
  var id: UInt16
  var groups: [String: UInt32] = [:]
}

extension GenericFamily {
  /// Reads CTRL_CMD_NEWFAMILY, and the name and number of CTRL_CMD_DELFAMILY. Returns `nil` if the
  /// message is malformed.
  init?(message: Message) {
    var (name, id): (String?, UInt16?)
    var groups: [String: UInt32] = [:]
    var attributes = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(CTRL_ATTR_FAMILY_NAME): name = attribute.payload.string
      case Int(CTRL_ATTR_FAMILY_ID): id = attribute.payload.load(UInt16.self, at: 0)
      case Int(CTRL_ATTR_MCAST_GROUPS): groups = Self.groups(attribute.payload)
      default: break
      }
    }
    guard !attributes.isMalformed, let name, let id else { return nil }
    self.init(name: name, id: id, groups: groups)
  }

  private static func groups(_ bytes: Bytes) -> [String: UInt32] {
    var groups: [String: UInt32] = [:]
    var list = AttributeReader(bytes)
    while let group = list.next() {
      var (name, id): (String?, UInt32?)
      var attributes = AttributeReader(group.payload)
      while let attribute = attributes.next() {
        switch attribute.type {
        case Int(CTRL_ATTR_MCAST_GRP_NAME): name = attribute.payload.string
        case Int(CTRL_ATTR_MCAST_GRP_ID): id = attribute.payload.uint32
        default: break
        }
      }
      if let name, let id { groups[name] = id }
    }
    return groups
  }
}

extension Requester {
  /// Returns a family of generic netlink, or `nil` if the kernel has none with that name.
  ///
  /// Lists all families, because a query by name would make the kernel load a module of that name
  /// (ctrl_getfamily).
  func family(_ name: String) throws(NetlinkError) -> GenericFamily? {
    let header = genlmsghdr(cmd: UInt8(CTRL_CMD_GETFAMILY), version: 1, reserved: 0)
    let request = Request(
      Int(GENL_ID_CTRL), "CTRL_CMD_GETFAMILY", isDump: true, header: header)
    return try self.objects(request) { GenericFamily(message: $0) }.first { $0.name == name }
  }
}
