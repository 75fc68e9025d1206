import Connectivity

/// An error for a text in a request that is not a valid host address.
struct HostAddressError: Error {
  var message: String
}

extension IPAddress {
  /// Parses the address that a client names. An IPv4-mapped IPv6 address, as of a dual-stack
  /// socket, becomes IPv4.
  ///
  /// - Throws: An error that names the field and the mistake.
  init(ofHost text: String, field: String) throws(HostAddressError) {
    guard let address = IPAddress(text)?.unmapped else {
      throw HostAddressError(
        message: "\(field): '\(text.prefix(64))' is neither an IPv4 nor an IPv6 address")
    }
    // The unspecified address does not name a host. Programs bind to it to use any address.
    guard !address.isUnspecified else {
      throw HostAddressError(message: "\(field): '\(text.prefix(64))' is not a host address")
    }
    self = address
  }
}
