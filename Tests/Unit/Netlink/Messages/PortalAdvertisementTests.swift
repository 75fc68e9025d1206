import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

@Suite("Captive portals in router advertisements")
struct PortalAdvertisementTests {
  /// A message as the kernel sends it for link 5, with one option.
  private static func message(type: UInt16 = UInt16(RTM_NEWNDUSEROPT), option: [UInt8]) -> Message {
    var header = nduseroptmsg()
    header.nduseropt_family = UInt8(AF_INET6)
    header.nduseropt_opts_len = UInt16(option.count)
    header.nduseropt_ifindex = 5
    header.nduseropt_icmp_type = 134
    let payload = withUnsafeBytes(of: header) { Array($0) } + option
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: payload.count, alignment: 8)
    copy.copyBytes(from: payload)
    return Message(type: type, payload: Bytes(UnsafeRawBufferPointer(copy)))
  }

  private static func option(_ uri: String, type: UInt8 = 37, units: UInt8? = nil) -> [UInt8] {
    let text = Array(uri.utf8)
    let units = units ?? UInt8((text.count + 2 + 7) / 8)
    let option = [type, units] + text
    return option + [UInt8](repeating: 0, count: max(0, Int(units) * 8 - option.count))
  }

  @Test("the captive-portal option → the link and the URI")
  func parsed() {
    let message = Self.message(option: Self.option("https://portal.example/"))
    #expect(
      PortalAdvertisement(message: message) == .init(link: 5, portal: "https://portal.example/"))
  }

  @Test(
    "another option, a wrong length, or no URI → nothing",
    arguments: [
      Self.option("https://portal.example/", type: 25), [], [37], [37, 0], [37, 2, 0x61],
      Self.option("https://a/", units: 200).prefix(40).map { $0 }, Self.option(""),
      Self.option("https://a/\u{7}"),
    ])
  func malformed(option: [UInt8]) {
    #expect(PortalAdvertisement(message: Self.message(option: option)) == nil)
  }
}
