package import Connectivity
private import ConnectivityProtobuf

extension Connectivity_V1_GuardResponse {
  /// Creates the message about an event of the flow with this ID.
  ///
  /// - Parameter time: The client's deadline for asking its peer, or `nil` if it need not ask.
  package init(
    _ id: UInt64, _ event: FlowEvent, generation: UInt64, askedUntil time: WallTime? = nil
  ) {
    self.init()
    self.id = id
    self.generation = generation
    if let time { self.questionEndTime = Google_Protobuf_Timestamp(time) }
    switch event {
    case .path(let path): self.path = Connectivity_V1_Path(path)
    case .betterPathGone(let path): self.betterPathGone = Connectivity_V1_Path(path)
    case .invalidation(let invalidation):
      self.invalidation = Connectivity_V1_FlowInvalidation(invalidation)
    case .refused(let refusal):
      self.refused.code = Connectivity_V1_RefusalCode(refusal.code)
      self.refused.message = refusal.message
    }
  }
}

extension FlowEvent {
  /// Parses a message. Returns `nil` for an unknown event from a newer connd.
  ///
  /// - Throws: ``ConversionError`` if an address is invalid.
  package init?(_ message: Connectivity_V1_GuardResponse) throws(ConversionError) {
    switch message.event {
    case .path(let path): self = .path(try KernelPath(path))
    case .betterPathGone(let path): self = .betterPathGone(try KernelPath(path))
    case .invalidation(let invalidation): self = .invalidation(try InvalidationError(invalidation))
    case .refused(let refused):
      self = .refused(FlowRefusal(code: FlowRefusal.Code(refused.code), message: refused.message))
    case nil: return nil
    }
  }
}

extension Connectivity_V1_FlowInvalidation {
  fileprivate init(_ invalidation: InvalidationError) {
    self.init()
    self.reason = Connectivity_V1_InvalidationReason(invalidation.reason)
    self.severity = Connectivity_V1_InvalidationSeverity(invalidation.severity)
    self.cause = Connectivity_V1_Cause(invalidation.cause)
    if let path = invalidation.path { self.path = Connectivity_V1_Path(path) }
    if let socket = invalidation.socket { self.socket = Connectivity_V1_SocketTestimony(socket) }
    self.migrate = invalidation.migrates
  }
}

extension InvalidationError {
  /// - Throws: ``ConversionError`` if an address is invalid.
  fileprivate init(_ message: Connectivity_V1_FlowInvalidation) throws(ConversionError) {
    self.init(
      reason: Invalidation.Reason(message.reason),
      severity: Invalidation.Severity(message.severity),
      cause: ChangeCause(message.cause),
      path: message.hasPath ? try KernelPath(message.path) : nil,
      socket: message.hasSocket ? SocketTestimony(message.socket) : nil)
    self.migrates = message.migrate
  }
}
