import ArgumentParser
import Connectivity

/// One end of a connection, as users write it: `example.com`, `192.0.2.1:443`, `2001:db8::1`,
/// `[2001:db8::1]:443`, `https://example.com/page`.
struct Endpoint: Hashable {
  /// A name or an address, without the brackets of IPv6.
  var host: String
  /// 0 if no port is given.
  var port: UInt16 = 0

  /// - Throws: `ValidationError` that names the problem. The host is not checked.
  init(_ text: String) throws {
    let text = Self.authority(ofURL: text) ?? text
    if text.hasPrefix("[") {
      let parts = text.dropFirst().split(
        separator: "]", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, parts[0].contains(":"), parts[1].isEmpty || parts[1].first == ":"
      else {
        throw ValidationError("“\(text)” is not an address: write [2001:db8::1]:443")
      }
      self.host = String(parts[0])
      if !parts[1].isEmpty { self.port = try Self.port(parts[1].dropFirst()) }
      return
    }
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    // A text with more than one colon is an IPv6 address. Its last part is not a port.
    guard parts.count == 2 else {
      self.host = text
      return
    }
    self.host = String(parts[0])
    self.port = try Self.port(parts[1])
  }

  /// Returns the host and port of a URL, or `nil` for any other text.
  private static func authority(ofURL text: String) -> String? {
    guard let scheme = text.firstRange(of: "://") else { return nil }
    let authority = text[scheme.upperBound...].prefix { !"/?#".contains($0) }
    return String(authority.lastIndex(of: "@").map { authority[$0...].dropFirst() } ?? authority)
  }

  private static func port(_ text: Substring) throws -> UInt16 {
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = UInt16(text), port > 0
    else {
      throw ValidationError("“\(text)” is not a port: write 1 to \(UInt16.max)")
    }
    return port
  }
}

extension Endpoint {
  /// Whether the text may be the name of a link: a host without port, dot or colon.
  var mayBeLink: Bool {
    self.port == 0 && !self.host.isEmpty && IPAddress(self.host) == nil
      && !self.host.contains { ".:".contains($0) }
  }
}

extension String {
  /// Whether the kernel or systemd gives links such names: `eth7`, `wlp3s0`. A search for a host of
  /// that name would only cost time.
  var isTypicalLinkName: Bool {
    let letters = self.prefix { $0.isASCII && $0.isLetter }
    guard let next = self[letters.endIndex...].first, next.isASCII, next.isNumber else {
      return false
    }
    let names = [
      "eth", "wlan", "usb", "wwan", "tun", "tap", "wg", "ppp", "br", "bond", "team", "docker",
      "virbr", "veth",
    ]
    let systemd = ["en", "wl", "ww"].flatMap { kind in ["o", "s", "p", "x"].map { kind + $0 } }
    return (names + systemd).contains(String(letters))
  }
}
