import CLinux
import Glibc

/// A state machine over the messages that answer one request.
///
/// Implements rule D8.
struct Exchange {
  enum Step {
    /// A requested object. In a dump, more may follow.
    case object(Message)
    /// A message without meaning for the answer.
    case nothing
    /// The answer is complete.
    case complete
    /// The answer is complete, but the listed objects changed meanwhile: some may be missing or
    /// duplicated.
    case interrupted
    case failed(errno: CInt, message: String?)
  }

  let isDump: Bool
  private var isInterrupted = false

  init(isDump: Bool) {
    self.isDump = isDump
  }

  /// Processes the next message with the request's sequence number.
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
      // An error contains the request's header. Unless NETLINK_CAP_ACK is in effect, it contains
      // the whole request.
      let requestSize = message.payload.load(UInt32.self, at: 4).map(Int.init) ?? 0
      let isCapped = message.flags & UInt16(NLM_F_CAPPED) != 0
      let attributes = 4 + (isCapped ? MemoryLayout<nlmsghdr>.size : requestSize)
      return code == 0
        ? .complete
        : .failed(errno: errnoOf(code), message: self.text(of: message, after: attributes))
    case NLMSG_DONE:
      // If a dump fails midway, NLMSG_DONE carries the error.
      if let code = message.payload.load(Int32.self, at: 0), code < 0 {
        return .failed(errno: errnoOf(code), message: self.text(of: message, after: 4))
      }
      return self.isInterrupted ? .interrupted : .complete
    default:
      return .object(message)
    }
  }

  /// Returns the kernel's explanation, or `nil` if NETLINK_EXT_ACK brought none.
  private func text(of message: Message, after header: Int) -> String? {
    guard message.flags & UInt16(NLM_F_ACK_TLVS) != 0 else { return nil }
    var attributes = AttributeReader(message.payload, after: header)
    while let attribute = attributes.next() {
      if attribute.type == Int(NLMSGERR_ATTR_MSG.rawValue) { return attribute.payload.string }
    }
    return nil
  }
}

/// Returns the errno from its negated value. Never traps, whatever the value.
private func errnoOf(_ code: Int32) -> CInt { code < 0 && code != .min ? -code : EBADMSG }
