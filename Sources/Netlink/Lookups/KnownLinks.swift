import Connectivity

/// The links that were read last, with their messages. An equal message is not read again.
struct KnownLinks {
  private var links: [UInt32: (message: [UInt8], link: Link)] = [:]
  /// The paths of a machine rarely use more links.
  private static let maxLinks = 16

  /// Returns the link that a message describes, or `nil` if the message is malformed.
  mutating func link(_ index: UInt32, of message: Message) -> Link? {
    if let known = self.links[index], message.payload.isEqual(to: known.message) {
      return known.link
    }
    guard let link = Link(message: message) else { return nil }
    if self.links.count >= Self.maxLinks { self.links = [:] }
    self.links[index] = (message.payload.array, link)
    return link
  }
}
