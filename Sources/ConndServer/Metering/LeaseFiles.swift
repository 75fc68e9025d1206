import Netlink

/// The leases of systemd-networkd: what DHCP servers have told it. Those of NetworkManager are root's alone; it says itself what it has
/// made of them.
struct LeaseFiles {
  /// What all paths begin with; empty outside of tests.
  var root = ""
  var files: any FileReader = ResolverFiles()

  private static let leases = "/run/systemd/netif/leases"
  /// What a phone that shares what it pays for says in option 43 (RFC 2132, 8.4), since Android 4.
  private static let metered = Array("ANDROID_METERED".utf8)

  var directory: String { self.root + Self.leases }

  /// The names of the links that have a lease from such a phone.
  func phones() -> Set<String> {
    let names = (try? self.files.answer(FileQuestion(.names, self.directory)).get()) ?? []
    var phones: Set<String> = []
    for name in names.split(separator: 0).map({ String(decoding: $0, as: UTF8.self) }) {
      // Named by the link's index, beside files that are being written.
      guard UInt32(name) != nil,
        let text = try? self.files.answer(FileQuestion(.file, "\(self.directory)/\(name)")).get(),
        Self.isOfPhone(text),
        let link = try? self.files.answer(FileQuestion(.linkName, name)).get()
      else { continue }
      phones.insert(String(decoding: link, as: UTF8.self))
    }
    return phones
  }

  /// `VENDOR_SPECIFIC=414e…` (systemd's sd-dhcp-lease.c, which does not promise to keep that).
  private static func isOfPhone(_ text: [UInt8]) -> Bool {
    let key = Array("VENDOR_SPECIFIC=".utf8)
    let line = text.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: key) }
    guard let digits = line?.dropFirst(key.count) else { return false }
    var octets: [UInt8] = []
    var rest = digits[...]
    while rest.count >= 2 {
      let pair = String(decoding: rest.prefix(2), as: UTF8.self)
      guard let octet = UInt8(pair, radix: 16) else { return false }
      octets.append(octet)
      rest = rest.dropFirst(2)
    }
    // Others take it wherever it stands, too.
    return octets.indices.contains { octets[$0...].starts(with: Self.metered) }
  }
}
