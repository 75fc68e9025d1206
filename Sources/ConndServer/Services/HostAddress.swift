import Connectivity

/// A text in a request that is no address to which, or from which, traffic can be sent.
struct HostAddressError: Error {
  var message: String
}

extension IPAddress {
  /// The address that a client names. One that a dual-stack socket maps to IPv6 is IPv4.
  ///
  /// - Throws: What names the field, and says what is wrong.
  init(ofHost text: String, field: String) throws(HostAddressError) {
    guard let address = IPAddress(text)?.unmapped else {
      throw HostAddressError(
        message: "\(field): '\(text.prefix(64))' is neither an IPv4 nor an IPv6 address")
    }
    // What programs bind to, and the kernel takes for any address.
    guard !address.isUnspecified else {
      throw HostAddressError(message: "\(field): '\(text.prefix(64))' is no host's address")
    }
    self = address
  }
}
