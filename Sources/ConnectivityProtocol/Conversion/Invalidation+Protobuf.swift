public import Connectivity
private import SwiftProtobuf

extension Connectivity_V1_Invalidation {
  public init(_ invalidation: Invalidation) {
    self.init()
    self.generation = invalidation.generation
    self.reason = Connectivity_V1_InvalidationReason(invalidation.reason)
    self.severity = Connectivity_V1_InvalidationSeverity(invalidation.severity)
    self.scope = Connectivity_V1_Scope(invalidation.scope)
    self.cause = Connectivity_V1_Cause(invalidation.cause)
    self.time = Google_Protobuf_Timestamp(invalidation.time)
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
      cause: Cause(message.cause),
      time: try Timestamp(message.time))
  }
}

extension Connectivity_V1_Scope {
  public init(_ scope: Invalidation.Scope) {
    self.init()
    if let interface = scope.interface { self.interface = interface }
    if let family = scope.family { self.family = Connectivity_V1_AddressFamily(family) }
    self.localAddresses = scope.localAddresses?.map(\.description) ?? []
    if let destination = scope.destination { self.destination = destination.description }
  }
}

extension Invalidation.Scope {
  /// - Throws: ``ConversionError`` if an address is invalid. The scope must not be guessed.
  public init(_ message: Connectivity_V1_Scope) throws(ConversionError) {
    var addresses: [IPAddress] = []
    for text in message.localAddresses {
      addresses.append(try address(text, "scope.local_addresses"))
    }
    self.init(
      interface: message.hasInterface ? message.interface : nil,
      family: message.hasFamily ? AddressFamily(message.family) : nil,
      localAddresses: addresses.isEmpty ? nil : addresses,
      destination: message.hasDestination ? try Destination(message.destination) : nil)
  }
}

extension Invalidation.Scope.Destination {
  fileprivate init(_ text: String) throws(ConversionError) {
    self =
      text == Self.offLink.description
      ? .offLink : .address(try ConnectivityProtocol.address(text, "scope.destination"))
  }
}
