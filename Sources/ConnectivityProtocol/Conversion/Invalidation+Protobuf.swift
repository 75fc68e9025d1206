public import Connectivity
private import ConnectivityProtobuf

extension Connectivity_V1_Invalidation {
  public init(_ invalidation: Invalidation) {
    self.init()
    self.generation = invalidation.generation
    self.reason = Connectivity_V1_InvalidationReason(invalidation.reason)
    self.severity = Connectivity_V1_InvalidationSeverity(invalidation.severity)
    self.scope = Connectivity_V1_Scope(invalidation.scope)
    self.cause = Connectivity_V1_Cause(invalidation.cause)
    self.publishTime = Google_Protobuf_Timestamp(invalidation.time)
  }
}

extension Invalidation {
  /// - Throws: ``ConversionError`` if an address or the time is invalid.
  public init(_ message: Connectivity_V1_Invalidation) throws(ConversionError) {
    self.init(
      generation: message.generation,
      reason: Reason(message.reason),
      severity: Severity(message.severity),
      scope: try Scope(message.scope),
      cause: ChangeCause(message.cause),
      time: try WallTime(message.publishTime))
  }
}

extension Connectivity_V1_Scope {
  public init(_ scope: Invalidation.Scope) {
    self.init()
    if let interface = scope.interface { self.interface = interface }
    if let family = scope.family { self.family = Connectivity_V1_AddressFamily(family) }
    self.localAddresses = scope.localAddresses?.map(\.description) ?? []
    switch scope.destination {
    case .address(let address): self.destination = address.description
    case .offLink: self.offLink = Connectivity_V1_OffLink()
    case nil: break
    }
  }
}

extension Invalidation.Scope {
  /// - Throws: ``ConversionError`` if an address is invalid. The scope must not be guessed.
  public init(_ message: Connectivity_V1_Scope) throws(ConversionError) {
    var addresses: [IPAddress] = []
    for text in message.localAddresses {
      addresses.append(try address(text, "scope.local_addresses"))
    }
    let destination: Destination? =
      switch message.remote {
      case .destination(let text): .address(try address(text, "scope.destination"))
      case .offLink: .offLink
      case nil: nil
      }
    self.init(
      interface: message.hasInterface ? message.interface : nil,
      family: message.hasFamily ? AddressFamily(message.family) : nil,
      localAddresses: addresses.isEmpty ? nil : addresses,
      destination: destination)
  }
}
