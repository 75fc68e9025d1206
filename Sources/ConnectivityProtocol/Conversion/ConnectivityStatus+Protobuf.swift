public import Connectivity
private import ConnectivityProtobuf

extension Connectivity_V1_Status {
  /// - Parameter networkNamespace: The inode of connd's namespace, or 0 if unknown.
  public init(_ snapshot: ConnectivitySnapshot, networkNamespace: UInt64 = 0) {
    let status = snapshot.status
    self.init()
    self.networkNamespace = networkNamespace
    self.generation = snapshot.generation
    self.category = Connectivity_V1_Category(status.category)
    self.threeWay = Connectivity_V1_ThreeWayCategory(status.category.threeWay)
    self.since = Google_Protobuf_Timestamp(snapshot.since)
    self.flags = Connectivity_V1_Flags(status.flags)
    if let interface = status.interface { self.interface = interface }
    self.medium = Connectivity_V1_Medium(status.medium)
    if let costs = status.path.costsMoney { self.expensive = costs }
    self.constrained = status.isConstrained
    if status.isConstrained {
      self.constraintLevel = Connectivity_V1_ConstraintLevel(status.path.constraint)
    }
    self.ipv4 = Connectivity_V1_Path(status.ipv4)
    self.ipv6 = Connectivity_V1_Path(status.ipv6)
    self.family = Connectivity_V1_AddressFamily(status.family)
    if let dns = snapshot.dns { self.dns = Connectivity_V1_Dns(dns) }
  }
}

extension ConnectivitySnapshot {
  /// Creates the status in the message, with category, flags and family as derived by the sender.
  ///
  /// - Throws: ``ConversionError`` if an address or the time is invalid.
  public init(_ message: Connectivity_V1_Status) throws(ConversionError) {
    var status = ConnectivityStatus(
      ipv4: message.hasIpv4 ? try KernelPath(message.ipv4) : .unknown,
      ipv6: message.hasIpv6 ? try KernelPath(message.ipv6) : .unknown,
      preferred: AddressFamily(message.family))
    status.family = AddressFamily(message.family)
    status.category = NetworkCategory(message.category)
    status.flags = ReachabilityFlags(message.flags)
    self.init(
      generation: message.generation, since: try WallTime(message.since), status: status,
      dns: message.hasDns ? try DNSSettings(message.dns) : nil)
  }
}

extension Connectivity_V1_Flags {
  public init(_ flags: ReachabilityFlags) {
    self.init()
    self.reachable = flags.reachable
    self.connectionRequired = flags.connectionRequired
    self.isWwan = flags.isWWAN
  }
}

extension ReachabilityFlags {
  public init(_ message: Connectivity_V1_Flags) {
    self.init(
      reachable: message.reachable, connectionRequired: message.connectionRequired,
      isWWAN: message.isWwan)
  }
}
