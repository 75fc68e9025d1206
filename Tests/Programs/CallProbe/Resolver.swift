import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Glibc

/// An address and a port.
struct Host {
  /// For IPv6 with its zone, if it has one.
  var address: String
  var port: Int

  /// Parses `ADDRESS:PORT` with an IPv6 address in brackets, or returns `nil` for anything else.
  init?(_ text: some StringProtocol) {
    guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...])
    else { return nil }
    let address = text[..<colon]
    let isBracketed = address.hasPrefix("[") && address.hasSuffix("]")
    guard isBracketed || !address.contains(":") else { return nil }
    self.address = String(isBracketed ? address.dropFirst().dropLast() : address[...])
    self.port = port
  }

  var isIPv6: Bool { self.address.contains(":") }
}

/// A name in the file.
struct NamedTarget: ResolvableTarget {
  var name: String
}

/// Resolves names from a file, which it reads each time, and reports the results.
struct FileResolver: NameResolverFactory {
  var file: String

  func resolver(for target: NamedTarget) -> NameResolver {
    let lookups = Lookups(file: self.file, name: target.name)
    return NameResolver(names: RPCAsyncSequence(wrapping: lookups), updateMode: .pull)
  }

  private struct Lookups: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let file: String
    let name: String

    func makeAsyncIterator() -> Lookups { self }

    func next() async throws -> NameResolutionResult? { try self.look() }

    func next(isolation: isolated (any Actor)?) async throws -> NameResolutionResult? {
      try self.look()
    }

    private func look() throws -> NameResolutionResult {
      let hosts = self.lines().compactMap { line -> Host? in
        let words = line.split(separator: " ")
        return words.count == 2 && words[0] == self.name ? Host(words[1]) : nil
      }
      let found = hosts.map { "\($0.address):\($0.port)" }.joined(separator: " ")
      report("resolved", ["message": found])
      guard !hosts.isEmpty else {
        throw RPCError(code: .unavailable, message: "\(self.name) is not in \(self.file)")
      }
      return NameResolutionResult(
        endpoints: hosts.map { host in
          Endpoint(addresses: [.ipv4(host: host.address, port: host.port)])
        }, serviceConfig: nil)
    }

    private func lines() -> [Substring] {
      let descriptor = open(self.file, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { return [] }
      defer { close(descriptor) }
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = read(descriptor, &bytes, bytes.count)
      return String(decoding: bytes.prefix(Swift.max(0, count)), as: UTF8.self).split(
        separator: "\n")
    }
  }
}
