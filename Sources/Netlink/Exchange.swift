import CLinux
import Glibc

/// What has come of one request so far: a state machine over the messages that answer it.
struct Exchange {
  enum Step {
    /// One of the objects asked for; of a dump, more follow.
    case object(Message)
    /// Nothing to do with the answer.
    case nothing
    /// The answer is whole.
    case complete
    /// The answer is whole, but what it lists changed while it was listed: objects may be missing or twice there.
    case interrupted
    case failed(errno: CInt, message: String?)
  }

  let isDump: Bool
  private var isInterrupted = false

  init(isDump: Bool) {
    self.isDump = isDump
  }

  /// Takes the next message that bears the request's sequence number.
  mutating func receive(_ message: Message) -> Step {
    if message.flags & UInt16(NLM_F_DUMP_INTR) != 0 { self.isInterrupted = true }
    switch Int32(message.type) {
    case NLMSG_NOOP:
      return .nothing
    case NLMSG_OVERRUN:
      return .failed(errno: ENOBUFS, message: nil)
    case NLMSG_ERROR:
      guard let code = message.payload.load(Int32.self, at: 0) else {
        return .failed(errno: EBADMSG, message: nil)
      }
      // An error holds the request's header, and all of the request unless NETLINK_CAP_ACK spares that.
      let requestSize = message.payload.load(UInt32.self, at: 4).map(Int.init) ?? 0
      let isCapped = message.flags & UInt16(NLM_F_CAPPED) != 0
      let attributes = 4 + (isCapped ? MemoryLayout<nlmsghdr>.size : requestSize)
      return code == 0
        ? .complete
        : .failed(errno: errnoOf(code), message: self.words(of: message, after: attributes))
    case NLMSG_DONE:
      // The kernel ends a dump that fails half-way with the error in here.
      if let code = message.payload.load(Int32.self, at: 0), code < 0 {
        return .failed(errno: errnoOf(code), message: self.words(of: message, after: 4))
      }
      return self.isInterrupted ? .interrupted : .complete
    default:
      return .object(message)
    }
  }

  /// The kernel's explanation, where NETLINK_EXT_ACK brought one.
  private func words(of message: Message, after header: Int) -> String? {
    guard message.flags & UInt16(NLM_F_ACK_TLVS) != 0 else { return nil }
    var attributes = AttributeReader(message.payload, after: header)
    while let attribute = attributes.next() {
      if attribute.type == Int(NLMSGERR_ATTR_MSG.rawValue) { return attribute.payload.string }
    }
    return nil
  }
}

/// The errno that the kernel sent negated. No number traps, whatever was sent.
private func errnoOf(_ code: Int32) -> CInt { code < 0 && code != .min ? -code : EBADMSG }
