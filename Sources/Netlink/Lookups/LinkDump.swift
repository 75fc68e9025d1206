package import Connectivity

/// All links, read from the kernel in parts, so that the reader can do other things in between.
///
/// Not thread-safe: one thread owns it.
package final class LinkDump {
  package enum Part<Links> {
    /// The next links.
    case links(Links, isLast: Bool)
    /// Links changed while they were listed. The dump begins again, and the caller must discard
    /// earlier parts.
    case restarted
  }

  /// The maximum number of restarts. After more restarts, the dump is read in one go, because links
  /// change too fast.
  private static let maxRestarts = 3

  private let requester: Requester
  private var exchange: Exchange?
  private var restarts = 0

  /// - Parameter socket: A socket for this dump alone, because a socket has one dump at a time.
  package init(on socket: any DatagramSocket) throws(NetlinkError) {
    self.requester = try Requester(on: socket)
  }

  /// Reads the links of one datagram: about 20.
  package func next() throws(NetlinkError) -> Part<[Link]> {
    guard self.restarts <= Self.maxRestarts else {
      return .links(try self.requester.links(), isLast: true)
    }
    var request = Requester.linkDump
    var exchange: Exchange
    if let begun = self.exchange {
      exchange = begun
    } else {
      exchange = try self.requester.begin(&request)
    }
    var links: [Link] = []
    let outcome = self.requester.readPart(of: &exchange, request.operation) { message in
      if let link = Requester.link(of: message) { links.append(link) }
    }
    self.exchange = exchange
    switch outcome {
    case nil: return .links(links, isLast: false)
    case .complete: return .links(links, isLast: true)
    case .failed(let error):
      guard Requester.isTransient(error) else { throw error }
      self.requester.discard()
      (self.exchange, self.restarts) = (nil, self.restarts + 1)
      return .restarted
    }
  }
}
