import Connectivity
import Testing

@testable import ConndServer

@Suite("Addresses in requests")
struct HostAddressTests {
  @Test(
    "addresses of hosts are accepted", arguments: ["192.0.2.1", "127.0.0.1", "::1", "2001:db8::1"])
  func accepted(text: String) throws {
    #expect(try IPAddress(ofHost: text, field: "add.remote") == IPAddress(text))
  }

  @Test("an IPv4-mapped IPv6 address is IPv4")
  func mapped() throws {
    let address = try IPAddress(ofHost: "::ffff:192.0.2.7", field: "destination")
    #expect(address == IPAddress("192.0.2.7"))
  }

  @Test(
    "another text → the error names the field, and says whether it is an address at all",
    arguments: [
      ("0.0.0.0", "add.remote: '0.0.0.0' is not a host address"),
      ("::", "add.remote: '::' is not a host address"),
      ("::ffff:0.0.0.0", "add.remote: '::ffff:0.0.0.0' is not a host address"),
      ("here", "add.remote: 'here' is neither an IPv4 nor an IPv6 address"),
      ("", "add.remote: '' is neither an IPv4 nor an IPv6 address"),
    ])
  func refused(text: String, message: String) {
    let error = #expect(throws: HostAddressError.self) {
      try IPAddress(ofHost: text, field: "add.remote")
    }
    #expect(error?.message == message)
  }
}
