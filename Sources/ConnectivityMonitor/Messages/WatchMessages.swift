internal import Connectivity
internal import ConnectivityProtobuf

/// A message of the call `Watch`.
struct WatchMessage {
  private(set) var generation: UInt64 = 0
  /// `nil` if it comes from a newer connd.
  private(set) var event: StatusEvent?

  /// - Throws: ``ProtobufError`` if it is malformed.
  init(_ message: [UInt8]) throws(ProtobufError) {
    try ProtobufReader.read(message[...]) { (field) throws(ProtobufError) in
      let content = field.message ?? []
      switch field.number {
      case 1: self.generation = field.uint64 ?? 0
      case 2: self.event = .snapshot(try ConnectivitySnapshot(holder: content))
      case 3: self.event = .change(.transition(try Transition(message: content)))
      case 4: self.event = .change(.path(try PathChange(message: content)))
      case 5: self.event = .change(.invalidation(try Invalidation(message: content)))
      case 6: self.event = .gap(try ConnectivitySnapshot(holder: content))
      case 7: self.event = .change(.dns(try DNSChange(message: content)))
      default: break
      }
    }
  }

  /// Returns a request.
  static func request(since generation: UInt64?, _ kinds: Set<StatusEvent.Kind>) -> [UInt8] {
    var writer = ProtobufWriter()
    if let generation { writer.write(present: generation, as: 1) }
    for kind in StatusEvent.Kind.numbered where kinds.contains(kind) {
      writer.write(present: kind.number, as: 2)
    }
    return writer.bytes
  }
}

extension ConnectivitySnapshot {
  /// Reads the snapshot in a message that contains it.
  fileprivate init(holder: ProtobufReader.Bytes) throws(ProtobufError) {
    var status: ProtobufReader.Bytes?
    try ProtobufReader.read(holder) { field in if field.number == 2 { status = field.message } }
    try self.init(message: status)
  }
}

extension Transition {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    var (from, to, bounced) = (NetworkCategory.unknown, NetworkCategory.unknown, false)
    var (cause, time) = (ChangeCause(.kernel, ""), WallTime(microseconds: 0))
    var status: ProtobufReader.Bytes?
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 2: from = NetworkCategory(number: field.int32) ?? .unknown
      case 3: to = NetworkCategory(number: field.int32) ?? .unknown
      case 4: bounced = field.bool ?? false
      case 5: cause = try ChangeCause(message: field.message ?? [])
      case 6: status = field.message
      case 7: time = try WallTime(message: field.message ?? [])
      default: break
      }
    }
    self.init(
      from: from, to: to, bounced: bounced, cause: cause, time: time,
      snapshot: try ConnectivitySnapshot(message: status))
  }
}

extension PathChange {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    var (cause, time) = (ChangeCause(.kernel, ""), WallTime(microseconds: 0))
    var status: ProtobufReader.Bytes?
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 2: status = field.message
      case 3: cause = try ChangeCause(message: field.message ?? [])
      case 4: time = try WallTime(message: field.message ?? [])
      default: break
      }
    }
    self.init(cause: cause, time: time, snapshot: try ConnectivitySnapshot(message: status))
  }
}

extension DNSChange {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(
      generation: 0, settings: DNSSettings(servers: [], search: [], links: []),
      cause: ChangeCause(.kernel, ""), time: WallTime(microseconds: 0))
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.generation = field.uint64 ?? 0
      case 5: self.cause = try ChangeCause(message: field.message ?? [])
      case 6: self.time = try WallTime(message: field.message ?? [])
      default: try self.settings.read(field, servers: 2)
      }
    }
  }
}

extension ChangeCause {
  init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(.kernel, "")
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.trigger = Trigger(number: field.int32) ?? .kernel
      case 2: self.change = try field.string ?? ""
      case 3: self.message = try field.string
      case 4: self.interface = try field.string
      case 5: self.learntLate = field.bool ?? false
      default: break
      }
    }
  }
}

extension Invalidation {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(
      generation: 0, reason: .categoryChanged, severity: .advise, scope: .everything,
      cause: ChangeCause(.kernel, ""), time: WallTime(microseconds: 0))
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.generation = field.uint64 ?? 0
      case 2: self.reason = Reason(number: field.int32) ?? .categoryChanged
      case 3: self.severity = Severity(number: field.int32) ?? .advise
      case 4: self.scope = try Scope(message: field.message ?? [])
      case 5: self.cause = try ChangeCause(message: field.message ?? [])
      case 6: self.time = try WallTime(message: field.message ?? [])
      default: break
      }
    }
  }
}

extension Invalidation.Scope {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init()
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.interface = try field.string
      case 2: self.family = AddressFamily(number: field.int32) ?? .ipv4
      case 3:
        self.localAddresses =
          (self.localAddresses ?? []) + [try IPAddress(message: try field.string)]
      case 4: self.destination = .address(try IPAddress(message: try field.string))
      case 5: self.destination = .offLink
      default: break
      }
    }
  }
}
