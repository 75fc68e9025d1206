import CLinux
import Connectivity

/// The encapsulation of a route's packets: `RTA_ENCAP_TYPE` and `RTA_ENCAP`.
struct Encapsulation {
  /// `LWTUNNEL_ENCAP_*`
  var type: UInt16?
  var data = Bytes()

  /// The destination of the encapsulated packets, or `nil` if the header has no address (MPLS) or a
  /// program creates it (BPF).
  var destination: Destination? {
    guard let type else { return nil }
    var (address, source): (IPAddress?, IPAddress?)
    var attributes = AttributeReader(self.data)
    while let attribute = attributes.next() {
      let payload = attribute.payload
      switch (Int(type), attribute.type) {
      case (Int(CLINUX_LWTUNNEL_ENCAP_IP), Int(CLINUX_LWTUNNEL_IP_DST)),
        (Int(CLINUX_LWTUNNEL_ENCAP_IP6), Int(CLINUX_LWTUNNEL_IP_DST)),
        (Int(CLINUX_LWTUNNEL_ENCAP_IOAM6), Int(CLINUX_IOAM6_IPTUNNEL_DST)):
        address = payload.address
      case (Int(CLINUX_LWTUNNEL_ENCAP_IP), Int(CLINUX_LWTUNNEL_IP_SRC)),
        (Int(CLINUX_LWTUNNEL_ENCAP_IP6), Int(CLINUX_LWTUNNEL_IP_SRC)):
        source = payload.address.flatMap { $0.isUnspecified ? nil : $0 }
      case (Int(CLINUX_LWTUNNEL_ENCAP_SEG6), Int(CLINUX_SEG6_IPTUNNEL_SRH)):
        address = Self.firstSegment(of: payload)
      default: break
      }
    }
    guard let address, !address.isUnspecified else { return nil }
    return Destination(address, source: source)
  }

  /// Returns the first segment of an SRv6 header: that at the index `first_segment` of struct
  /// ipv6_sr_hdr, which follows the mode.
  private static func firstSegment(of header: Bytes) -> IPAddress? {
    guard let place = header.load(UInt8.self, at: 8) else { return nil }
    let start = 12 + 16 * Int(place)
    return header.slice(from: start, to: start + 16).address(.ipv6)
  }
}
