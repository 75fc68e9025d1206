import ArgumentParser
import Connectivity
import LinuxSupport

/// One end of a connection as an address, which needs no resolver.
struct AddressEndpoint: Hashable {
  var address: IPAddress
  /// 0 if no port is given.
  var port: UInt16
  /// The zone after `%`: a link's name or index.
  var link: String?

  /// - Throws: `ValidationError` that names the problem.
  init(_ text: String) throws {
    let endpoint = try Endpoint(text)
    let parts = endpoint.host.split(
      separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    guard let address = IPAddress(String(parts[0]))?.unmapped,
      parts.count == 1 || address.isLinkLocal && !parts[1].isEmpty
    else { throw ValidationError("“\(endpoint.host)” is not an address") }
    self.address = address
    self.link = try parts.count == 2 ? Self.link(String(parts[1])) : nil
    self.port = endpoint.port
  }

  private static func link(_ zone: String) throws -> String {
    guard let index = UInt32(zone) else { return zone }
    guard let name = linkName(index) else {
      throw ValidationError("there is no link with index \(index)")
    }
    return name
  }
}
