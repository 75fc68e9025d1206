internal import Connectivity
internal import ConnectivityProtobuf

extension ConnectivitySnapshot {
  /// - Throws: ``ProtobufError`` if it is malformed, or missing.
  init(message: ProtobufReader.Bytes?) throws(ProtobufError) {
    guard let message else { throw ProtobufError("the status is missing") }
    var (ipv4, ipv6) = (KernelPath.unknown, KernelPath.unknown)
    var (family, category) = (AddressFamily.ipv4, NetworkCategory.unknown)
    var flags = ReachabilityFlags(reachable: false, connectionRequired: false, isWWAN: false)
    var generation: UInt64 = 0
    var since = WallTime(microseconds: 0)
    var dns: DNSSettings?
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: generation = field.uint64 ?? 0
      case 2: category = NetworkCategory(number: field.int32) ?? .unknown
      case 4: since = try WallTime(message: field.message ?? [])
      case 5: flags = try ReachabilityFlags(message: field.message ?? [])
      case 10: ipv4 = try KernelPath(message: field.message ?? [])
      case 11: ipv6 = try KernelPath(message: field.message ?? [])
      case 12: family = AddressFamily(number: field.int32) ?? .ipv4
      case 14:
        var settings = DNSSettings(servers: [], search: [], links: [])
        try ProtobufReader.read(field.message ?? []) { (field) throws(ProtobufError) in
          try settings.read(field)
        }
        dns = settings
      default: break
      }
    }
    var status = ConnectivityStatus(ipv4: ipv4, ipv6: ipv6, preferred: family)
    (status.family, status.category, status.flags) = (family, category, flags)
    self.init(generation: generation, since: since, status: status, dns: dns)
  }
}

extension ReachabilityFlags {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(reachable: false, connectionRequired: false, isWWAN: false)
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.reachable = field.bool ?? false
      case 2: self.connectionRequired = field.bool ?? false
      case 3: self.isWWAN = field.bool ?? false
      default: break
      }
    }
  }
}

extension DNSSettings {
  /// Reads a field of the settings. Those of a change have other fields after these.
  mutating func read(_ field: ProtobufField, servers: Int = 1) throws(ProtobufError) {
    switch field.number - servers {
    case 0: self.servers.append(try Server(message: try field.string))
    case 1: self.search.append(try field.string ?? "")
    case 2: self.links.append(try Link(message: field.message ?? []))
    default: break
    }
  }
}

extension DNSSettings.Link {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(interface: "", servers: [], search: [])
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.interface = try field.string ?? ""
      case 2: self.servers.append(try DNSSettings.Server(message: try field.string))
      case 3: self.search.append(try field.string ?? "")
      default: break
      }
    }
  }
}

extension DNSSettings.Server {
  fileprivate init(message text: String?) throws(ProtobufError) {
    guard let text, let server = Self(text) else {
      throw ProtobufError("“\(text ?? "")” is not a server's address")
    }
    self = server
  }
}

extension WallTime {
  init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    let time = try ProtobufTime(message)
    let (whole, tooLong) = time.seconds.multipliedReportingOverflow(by: 1_000_000)
    let (sum, overflow) = whole.addingReportingOverflow(Int64(time.nanoseconds / 1_000))
    guard !tooLong, !overflow else {
      throw ProtobufError("\(time.seconds) seconds are out of range")
    }
    self.init(microseconds: sum)
  }
}

extension Duration {
  init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    let time = try ProtobufTime(message)
    self = .seconds(time.seconds) + .nanoseconds(Int64(time.nanoseconds))
  }
}

/// `google.protobuf.Timestamp` or `Duration`.
private struct ProtobufTime {
  var seconds: Int64 = 0
  var nanoseconds: Int32 = 0

  init(_ message: ProtobufReader.Bytes) throws(ProtobufError) {
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.seconds = field.int64 ?? 0
      case 2: self.nanoseconds = field.int32 ?? 0
      default: break
      }
    }
  }
}
