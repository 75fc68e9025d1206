import Connectivity
import ConnectivityRules

@testable import ConndServer

/// A client of `Guard`: it registers flows, reads its answers irregularly, and registers again when
/// connd has restarted.
struct GuardClient {
  let number: UInt64
  let laziness: Int
  var mailbox: GuardMailbox
  /// The last report for each flow: its path, or `nil` if it was destroyed.
  private(set) var told: [UInt64: KernelPath?] = [:]
  private var lastID: UInt64 = 0

  init(number: UInt64, laziness: Int) {
    self.number = number
    self.laziness = laziness
    self.mailbox = GuardMailbox(number)
  }

  mutating func nextKey() -> FlowTable.Key {
    self.lastID += 1
    self.told[self.lastID] = .some(.unknown)
    return FlowTable.Key(mailbox: self.number, id: self.lastID)
  }

  mutating func forget(_ id: UInt64) { self.told[id] = nil }

  /// Takes the waiting messages. Removing a flow drops its unread messages.
  mutating func take() async -> String? {
    guard self.mailbox.waitingMessages > 0 else { return nil }
    guard let messages = await self.mailbox.next() else { return "the stream of flows ended" }
    // From 256 messages on, unread ones are merged (D4); a few flows are reported at a time.
    if messages.count > 256 + 64 { return "D4: \(messages.count) messages wait" }
    for message in messages {
      // A message that was in transit when the client removed the flow.
      guard let known = self.told[message.id] else { continue }
      if known == nil { return "told of flow \(message.id) after its end" }
      switch message.event {
      case .path(let path), .betterPathGone(let path): self.told[message.id] = .some(path)
      case .invalidation(let invalidation):
        self.told[message.id] =
          invalidation.severity == .destroy ? .some(nil) : .some(invalidation.path ?? .unknown)
      case .refused: return "a flow was refused"
      }
    }
    return nil
  }
}
