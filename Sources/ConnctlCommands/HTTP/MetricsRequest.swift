import Connectivity

/// An HTTP request for the metrics (RFC 9112).
struct MetricsRequest: Equatable {
  /// The format that the client prefers.
  var format: Metrics.Format
  /// Whether the client wants only the fields of the response.
  var isHead: Bool

  /// Reads the head of a request: the lines before the first empty one.
  ///
  /// - Parameter hosts: The names of this machine that clients may use.
  /// - Throws: The response to a request that is not for the metrics.
  init(head: String, hosts: [String] = []) throws(HTTPRefusal) {
    // Swift treats CR LF as one Character.
    let ends: Set<Character> = ["\r\n", "\n"]
    var lines = head.split(omittingEmptySubsequences: false, whereSeparator: ends.contains)[...]
    let words = lines.popFirst()?.split(separator: " ", omittingEmptySubsequences: false) ?? []
    guard words.count == 3, words[0].isToken, !words[1].isEmpty, words[2].hasPrefix("HTTP/") else {
      throw .malformed("the request line is not “GET /metrics HTTP/1.1”")
    }
    guard ["HTTP/1.0", "HTTP/1.1"].contains(words[2]) else { throw .otherVersion }
    let fields = try Self.fields(lines)
    let named = fields.filter { $0.name == "host" }.map { $0.value[...] }
    guard named.count == 1 || named.isEmpty && words[2] == "HTTP/1.0" else {
      throw .malformed("the request needs one Host field")
    }
    let (authority, path) = Self.parts(of: words[1])
    guard (named + [authority].compactMap { $0 }).allSatisfy({ Self.isOwn($0, hosts) }) else {
      throw .otherHost
    }
    guard path == "/metrics" else { throw .otherPath }
    guard ["GET", "HEAD"].contains(words[0]) else { throw .otherMethod }
    self.isHead = words[0] == "HEAD"
    let accepted = fields.filter { $0.name == "accept" }.map(\.value).joined(separator: ",")
    self.format = Self.format(accepted: accepted)
  }

  private static func fields(
    _ lines: ArraySlice<Substring>
  ) throws(HTTPRefusal) -> [(name: String, value: String)] {
    var fields: [(String, String)] = []
    for line in lines {
      let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, parts[0].isToken else {
        throw .malformed("a header field is not “name: value”")
      }
      fields.append((parts[0].lowercased(), String(parts[1])))
    }
    return fields
  }

  /// Returns the host, if any, and the path of a target such as `/metrics?name=value` or
  /// `http://host/metrics`.
  private static func parts(of target: Substring) -> (authority: Substring?, path: Substring) {
    let rest = target.prefix { $0 != "?" }
    guard rest.lowercased().hasPrefix("http://") else { return (nil, rest) }
    let authority = rest.dropFirst("http://".count).prefix { $0 != "/" }
    return (authority, rest[authority.endIndex...])
  }

  /// Whether a host, optionally with a port, is an address, `localhost` or one of the names. A
  /// browser may send any other host, if the name of a page resolves to this machine (DNS
  /// rebinding).
  private static func isOwn(_ host: Substring, _ names: [String]) -> Bool {
    let text = host.trimmed.lowercased()
    let name =
      text.hasPrefix("[")
      ? text.dropFirst().prefix { $0 != "]" } : text.prefix { $0 != ":" }
    return name == "localhost" || IPAddress(String(name)) != nil
      || names.contains { $0.lowercased() == name }
  }

  /// Returns OpenMetrics if the client names it with at least the weight of the older text format.
  private static func format(accepted: String) -> Metrics.Format {
    var (openMetrics, text) = (0.0, 0.0)
    for range in accepted.split(separator: ",") {
      let parts = range.split(separator: ";").map { $0.trimmed.lowercased() }
      func parameter(_ name: String) -> String? {
        parts.dropFirst().first { $0.hasPrefix("\(name)=") }.map {
          String($0.dropFirst(name.count + 1))
        }
      }
      let weight = parameter("q").map { Double($0) ?? 0 } ?? 1
      switch parts.first {
      case "application/openmetrics-text" where parameter("version") ?? "1.0.0" == "1.0.0":
        openMetrics = max(openMetrics, weight)
      case "text/plain":
        text = max(text, weight)
      default: break
      }
    }
    return openMetrics > 0 && openMetrics >= text ? .openMetrics : .prometheus
  }
}

extension Substring {
  /// Whether this can be a method or the name of a field (RFC 9110, section 5.6.2).
  fileprivate var isToken: Bool {
    !self.isEmpty
      && self.unicodeScalars.allSatisfy {
        ("a"..."z").contains($0) || ("A"..."Z").contains($0) || ("0"..."9").contains($0)
          || "!#$%&'*+-.^_`|~".unicodeScalars.contains($0)
      }
  }

  fileprivate var trimmed: Substring {
    let blanks: Set<Character> = [" ", "\t"]
    var rest = self.drop(while: blanks.contains)
    while let last = rest.last, blanks.contains(last) { rest.removeLast() }
    return rest
  }
}
