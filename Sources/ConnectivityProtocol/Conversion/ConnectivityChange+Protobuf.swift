public import Connectivity
private import ConnectivityProtobuf

extension Connectivity_V1_Transition {
  /// - Parameter networkNamespace: The inode of connd's namespace, or 0 if unknown.
  public init(_ transition: ConnectivityChange.Transition, networkNamespace: UInt64 = 0) {
    self.init()
    self.generation = transition.snapshot.generation
    self.previous = Connectivity_V1_Category(transition.from)
    self.current = Connectivity_V1_Category(transition.to)
    self.bounced = transition.bounced
    self.cause = Connectivity_V1_Cause(transition.cause)
    self.status = Connectivity_V1_Status(
      transition.snapshot, networkNamespace: networkNamespace)
    self.publishTime = Google_Protobuf_Timestamp(transition.time)
  }
}

extension ConnectivityChange.Transition {
  /// - Throws: ``ConversionError`` if the status is missing or invalid.
  public init(_ message: Connectivity_V1_Transition) throws(ConversionError) {
    guard message.hasStatus else { throw ConversionError("status", "is missing") }
    self.init(
      from: NetworkCategory(message.previous), to: NetworkCategory(message.current),
      bounced: message.bounced,
      cause: ChangeCause(message.cause), time: try WallTime(message.publishTime),
      snapshot: try ConnectivitySnapshot(message.status))
  }
}

extension Connectivity_V1_PathChange {
  /// - Parameter networkNamespace: The inode of connd's namespace, or 0 if unknown.
  public init(_ change: ConnectivityChange.PathChange, networkNamespace: UInt64 = 0) {
    self.init()
    self.generation = change.snapshot.generation
    self.status = Connectivity_V1_Status(change.snapshot, networkNamespace: networkNamespace)
    self.cause = Connectivity_V1_Cause(change.cause)
    self.publishTime = Google_Protobuf_Timestamp(change.time)
  }
}

extension ConnectivityChange.PathChange {
  /// - Throws: ``ConversionError`` if the status is missing or invalid.
  public init(_ message: Connectivity_V1_PathChange) throws(ConversionError) {
    guard message.hasStatus else { throw ConversionError("status", "is missing") }
    self.init(
      cause: ChangeCause(message.cause), time: try WallTime(message.publishTime),
      snapshot: try ConnectivitySnapshot(message.status))
  }
}

extension Connectivity_V1_Cause {
  public init(_ cause: ChangeCause) {
    self.init()
    self.trigger = Connectivity_V1_CauseTrigger(cause.trigger)
    self.change = cause.change
    if let message = cause.message { self.message = message }
    if let interface = cause.interface { self.interface = interface }
    self.learntLate = cause.learntLate
  }
}

extension ChangeCause {
  public init(_ message: Connectivity_V1_Cause) {
    self.init(
      ChangeCause.Trigger(message.trigger), message.change,
      message: message.hasMessage ? message.message : nil,
      interface: message.hasInterface ? message.interface : nil,
      learntLate: message.learntLate)
  }
}
