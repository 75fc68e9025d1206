/// A router's advertisement of a captive portal on a link (RFC 8910, 2.3).
package struct PortalAdvertisement: Hashable, Sendable {
  /// The link's index.
  package var link: UInt32
  package var portal: String

  package init(link: UInt32, portal: String) {
    self.link = link
    self.portal = portal
  }

  /// The URI of a network that has no captive portal (RFC 8910, 2).
  package static let unrestricted = "urn:ietf:params:capport:unrestricted"

  /// Returns the text of a URI, or `nil` for other bytes. A URI consists of printable ASCII
  /// characters without spaces (RFC 3986, 2).
  package static func uri(_ bytes: some Collection<UInt8>) -> String? {
    guard !bytes.isEmpty, bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }
}
