import LinuxSupport
import Netlink

/// The DHCP leases of systemd-networkd. NetworkManager's leases are not read, because only root can
/// read them, and NetworkManager reports its conclusions itself.
struct LeaseFiles {
  /// The prefix of all paths. Empty outside of tests.
  var root = ""
  var files: any FileReader = MachineFiles()

  private static let leases = "/run/systemd/netif/leases"
  /// The text in option 43 (RFC 2132, 8.4) of an Android phone that shares a metered connection,
  /// since Android 4.
  private static let metered = Array("ANDROID_METERED".utf8)

  var directory: String { self.root + Self.leases }

  /// Returns the names of the links with a lease from a phone that shares a metered connection.
  func phones() -> Set<String> {
    Set(
      self.files.networkdFiles(in: self.directory).lazy.filter { Self.isOfPhone($0.text) }
        .map(\.link))
  }

  /// Whether `VENDOR_SPECIFIC=414e…` (systemd's sd-dhcp-lease.c) contains the phone's text.
  private static func isOfPhone(_ text: [UInt8]) -> Bool {
    guard let digits = networkdValue(of: "VENDOR_SPECIFIC", in: text) else { return false }
    var octets: [UInt8] = []
    var rest = digits[...]
    while rest.count >= 2 {
      let pair = String(decoding: rest.prefix(2), as: UTF8.self)
      guard let octet = UInt8(pair, radix: 16) else { return false }
      octets.append(octet)
      rest = rest.dropFirst(2)
    }
    // Other programs also accept the text anywhere in the option.
    return octets.indices.contains { octets[$0...].starts(with: Self.metered) }
  }
}
