import Connectivity

/// The contents of a file in the format of resolv.conf(5).
///
/// The file may contain anything, because a DHCP server chooses the domains.
struct ResolvConf {
  private(set) var servers: [DNSSettings.Server] = []
  private(set) var search: [String] = []

  /// The maximum number of servers, and of search domains. No resolver uses more.
  static let maxServers = 32

  init(_ text: String) {
    // A keyword must be at the start of the line.
    for line in text.split(whereSeparator: \.isNewline) {
      let text = line.split { $0 == " " || $0 == "\t" }
      guard let keyword = text.first, !line.hasPrefix(" "), !line.hasPrefix("\t") else { continue }
      switch keyword {
      case "nameserver": self.servers += Self.servers(text.dropFirst().prefix(1))
      // The last line with `search` or `domain` applies.
      case "search": self.search = Self.domains(text.dropFirst())
      case "domain": self.search = Self.domains(text.dropFirst().prefix(1))
      default: continue
      }
    }
    self.servers = Array(self.servers.prefix(Self.maxServers))
  }

  /// Returns the valid server addresses. systemd's suffixes `:port`, `%link` and `#name` are
  /// allowed.
  static func servers(_ words: some Sequence<Substring>) -> [DNSSettings.Server] {
    words.compactMap { word in
      var text = word.prefix { $0 != "#" }
      if text.first == "[" {
        let end = text.firstIndex(of: "]") ?? text.endIndex
        let zone = text[end...].drop { $0 != "%" }
        text = text[text.index(after: text.startIndex)..<end] + zone
      } else if text.contains(".") {
        text = text.prefix { $0 != ":" }
      }
      guard let server = DNSSettings.Server(text), server.zone.map({ Self.isLinkName($0) }) ?? true
      else {
        return nil
      }
      return server
    }
  }

  /// Returns the valid domains. A resolver's `~domain` selects a server and is never searched.
  static func domains(_ words: some Sequence<Substring>) -> [String] {
    let names = words.filter { word in
      word.utf8.count <= 255
        && word.utf8.allSatisfy { byte in
          switch byte {
          case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"):
            true
          default: false
          }
        }
    }
    return names.prefix(Self.maxServers).map(String.init)
  }

  /// Whether the kernel accepts the name for a link (dev_valid_name). An alternative name may be
  /// longer (ALTIFNAMSIZ).
  static func isLinkName(_ name: String, orAlternative: Bool = false) -> Bool {
    (1...(orAlternative ? 127 : 15)).contains(name.utf8.count) && name != "." && name != ".."
      && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") }
  }
}
