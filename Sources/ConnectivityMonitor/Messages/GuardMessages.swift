internal import Connectivity
internal import ConnectivityProtobuf

/// A message of the call `Guard`.
struct GuardMessage {
  private(set) var generation: UInt64 = 0
  private(set) var id: UInt64 = 0
  /// `nil` if it comes from a newer connd.
  private(set) var event: FlowEvent?
  /// The flow's path as connd sent it, with the fields of a newer version.
  private(set) var path: [UInt8] = []
  /// Whether the client must ask its peer (E4).
  private(set) var asksPeer = false
  /// connd's network namespace, or 0 if unknown.
  private(set) var networkNamespace: UInt64 = 0

  /// - Throws: ``ProtobufError`` if it is malformed.
  init(_ message: [UInt8]) throws(ProtobufError) {
    try ProtobufReader.read(message[...]) { (field) throws(ProtobufError) in
      let content = field.message ?? []
      switch field.number {
      case 1: self.generation = field.uint64 ?? 0
      case 2: self.id = field.uint64 ?? 0
      case 3: (self.event, self.path) = (.path(try KernelPath(message: content)), Array(content))
      case 4: self.event = .invalidation(try FlowInvalidation(message: content))
      case 5: self.event = .refused(try FlowRefusal(message: content))
      case 6:
        (self.event, self.path) = (
          .betterPathGone(try KernelPath(message: content)), Array(content)
        )
      case 7: self.networkNamespace = field.uint64 ?? 0
      case 8: self.asksPeer = true
      default: break
      }
    }
  }

  /// Returns the request to guard a flow.
  ///
  /// - Parameters:
  ///   - path: The flow's last known path, as a message.
  ///   - generation: The last generation that is known.
  static func addition(
    _ flow: FlowGuard.Flow, id: UInt64, knownPath path: [UInt8]?, since generation: UInt64?
  ) -> [UInt8] {
    var writer = ProtobufWriter()
    writer.write(present: id, as: 1)
    writer.write(present: flow.remote.description, as: 2)
    if let local = flow.local { writer.write(present: local.description, as: 3) }
    if flow.mark != 0 { writer.write(present: UInt64(flow.mark), as: 4) }
    if let interface = flow.interface { writer.write(present: interface, as: 5) }
    if let generation { writer.write(present: generation, as: 6) }
    if let path { writer.write(present: path, as: 7) }
    writer.write(flow.forbidsExpensive, as: 8)
    writer.write(flow.forbidsConstrained, as: 9)
    if let transport = flow.transport {
      if transport.localPort != 0 { writer.write(present: UInt64(transport.localPort), as: 10) }
      if transport.remotePort != 0 { writer.write(present: UInt64(transport.remotePort), as: 11) }
      writer.write(present: UInt64(transport.number), as: 12)
    }
    if flow.question != .none { writer.write(present: UInt64(flow.question.rawValue), as: 13) }
    return Self.request(1, writer.bytes)
  }

  /// Returns the request to stop guarding a flow.
  static func removal(_ id: UInt64) -> [UInt8] {
    var writer = ProtobufWriter()
    writer.write(present: id, as: 1)
    return Self.request(2, writer.bytes)
  }

  private static func request(_ number: UInt32, _ content: [UInt8]) -> [UInt8] {
    var writer = ProtobufWriter()
    writer.write(present: content, as: number)
    return writer.bytes
  }
}

extension FlowInvalidation {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    var (reason, severity) = (Invalidation.Reason.categoryChanged, Invalidation.Severity.advise)
    var cause = ChangeCause(.kernel, "")
    var (path, socket): (KernelPath?, SocketTestimony?)
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      let content = field.message ?? []
      switch field.number {
      case 1: reason = Invalidation.Reason(number: field.int32) ?? .categoryChanged
      case 2: severity = Invalidation.Severity(number: field.int32) ?? .advise
      case 3: cause = try ChangeCause(message: content)
      case 4: path = try KernelPath(message: content)
      case 5: socket = try SocketTestimony(message: content)
      default: break
      }
    }
    self.init(reason: reason, severity: severity, cause: cause, path: path, socket: socket)
  }
}

extension SocketTestimony {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(
      lastHeard: .zero, roundTrip: .zero, timeouts: 0, hasUnacknowledgedData: false)
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.lastHeard = try Duration(message: field.message ?? [])
      case 2: self.roundTrip = try Duration(message: field.message ?? [])
      case 3: self.timeouts = Int(field.uint32 ?? 0)
      case 4: self.hasUnacknowledgedData = field.bool ?? false
      default: break
      }
    }
  }
}

extension FlowRefusal {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(code: .invalidArgument, message: "")
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.code = field.int32 == 8 ? .resourceExhausted : .invalidArgument
      case 2: self.message = try field.string ?? ""
      default: break
      }
    }
  }
}
