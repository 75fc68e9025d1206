import Connectivity
import Testing

@testable import ConndServer

@Suite struct AddressListTests {
  private static func addresses(_ texts: String) -> [IPAddress] {
    texts.split(separator: " ").compactMap { IPAddress(String($0)) }
  }

  @Test(
    "D6 addresses inserted into a list → all once, in order",
    arguments: [
      ("", "", ""),
      ("", "192.0.2.2 192.0.2.1", "192.0.2.1 192.0.2.2"),
      ("192.0.2.2", "192.0.2.1 192.0.2.3", "192.0.2.1 192.0.2.2 192.0.2.3"),
      ("192.0.2.1 192.0.2.3", "192.0.2.3 192.0.2.3 192.0.2.1", "192.0.2.1 192.0.2.3"),
      (
        "2001:db8::1 192.0.2.9", "2001:db8:: 192.0.2.1",
        "192.0.2.1 192.0.2.9 2001:db8:: 2001:db8::1"
      ),
    ]) func insert(present: String, new: String, expected: String) throws
  {
    var list = AddressList(Self.addresses(present))
    list.insert(Self.addresses(new))
    #expect(list.all == Self.addresses(expected))
    #expect(list.isSuperset(of: Self.addresses(present + " " + new)))
    #expect(!list.contains(try #require(IPAddress("198.51.100.1"))))
  }
}
