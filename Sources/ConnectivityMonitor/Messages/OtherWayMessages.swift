internal import Connectivity
internal import ConnectivityProtobuf

/// Messages of the calls `GetPath` and `ReportAttempt` about the way by another link.
enum OtherWayMessages {
  static func request(_ destination: IPAddress, port: UInt16) -> [UInt8] {
    var writer = ProtobufWriter()
    writer.write(present: destination.description, as: 1)
    writer.write(present: UInt64(port), as: 4)
    writer.write(true, as: 5)
    return writer.bytes
  }

  static func report(_ outcome: AttemptOutcome, _ destination: IPAddress, port: UInt16) -> [UInt8] {
    var writer = ProtobufWriter()
    writer.write(present: destination.description, as: 1)
    writer.write(present: UInt64(port), as: 2)
    writer.write(present: UInt64(outcome.rawValue), as: 3)
    return writer.bytes
  }

  /// Returns the way in a response. Returns `nil` without one, or if the response is about another
  /// network namespace than this process's.
  ///
  /// - Throws: ``ProtobufError`` if it is malformed.
  static func otherWay(_ message: [UInt8]) throws(ProtobufError) -> OtherWay? {
    var way: OtherWay?
    var namespace: UInt64 = 0
    try ProtobufReader.read(message[...]) { (field) throws(ProtobufError) in
      switch field.number {
      case 3: namespace = field.uint64 ?? 0
      case 4: way = try OtherWay(message: field.message ?? [])
      default: break
      }
    }
    return namespace == ProcessNamespace.told ? way : nil
  }
}

extension OtherWay {
  /// An unknown reason becomes `noOtherPath`, because the way is not allowed.
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(whyNot: .noOtherPath)
    var isRefused = false
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.path = try KernelPath(message: field.message ?? [])
      case 2: (self.whyNot, isRefused) = (Reason(number: field.int32) ?? .noOtherPath, true)
      default: break
      }
    }
    if self.path != nil, !isRefused { self.whyNot = nil }
  }
}

extension OtherWay.Reason: Numbered {
  static let numbered: [Self] = [
    .bound, .marked, .notGlobal, .noDefaultPath, .tunnel, .ownRoute, .noOtherPath, .strictFilter,
    .roaming, .constrained, .expensive, .switchedOff,
  ]
}
