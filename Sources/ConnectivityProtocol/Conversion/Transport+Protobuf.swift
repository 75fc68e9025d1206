package import Connectivity

extension Transport {
  /// Creates the protocol and ports of a flow, or `nil` if it has none.
  ///
  /// - Throws: ``ConversionError`` if a number is too large.
  package init?(_ flow: Connectivity_V1_Flow) throws(ConversionError) {
    let localPort = try port(flow.localPort, "local_port")
    let remotePort = try port(flow.remotePort, "remote_port")
    guard let number = UInt8(exactly: flow.protocol) else {
      throw ConversionError("protocol", "\(flow.protocol) is not a protocol number (at most 255)")
    }
    if number == 0, localPort == 0, remotePort == 0 { return nil }
    self.init(number == 0 ? Self.tcp : number, localPort: localPort, remotePort: remotePort)
  }
}

extension Connectivity_V1_Flow {
  /// Sets the known ports, and the protocol.
  package mutating func setTransport(_ transport: Transport) {
    if transport.localPort != 0 { self.localPort = UInt32(transport.localPort) }
    if transport.remotePort != 0 { self.remotePort = UInt32(transport.remotePort) }
    self.protocol = UInt32(transport.number)
  }
}

private func port(_ number: UInt32, _ field: String) throws(ConversionError) -> UInt16 {
  guard let port = UInt16(exactly: number) else {
    throw ConversionError(field, "\(number) is not a port (at most \(UInt16.max))")
  }
  return port
}
