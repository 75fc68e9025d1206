import Connectivity
import ConnectivityProtocol
import SwiftProtobuf

/// A change, and the message that tells it, serialised once for all subscribers.
struct Published: Sendable {
  let change: Change
  let message: EncodedMessage

  init(_ change: Change) throws {
    self.change = change
    self.message = try EncodedMessage(
      Connectivity_V1_WatchResponse(change, networkNamespace: NetworkNamespace.told))
  }

  /// Of a message as it was kept.
  init(decoding bytes: [UInt8]) throws {
    let response = try Connectivity_V1_WatchResponse(serializedBytes: bytes)
    guard case .change(let change) = try WatchEvent(response) else { throw NotAChange() }
    self.change = change
    self.message = EncodedMessage(bytes: bytes)
  }
}

/// A message that is a snapshot or a gap: those are not kept.
struct NotAChange: Error {}

/// A serialised Protobuf message.
struct EncodedMessage: Sendable, Hashable {
  let bytes: [UInt8]

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  init(_ message: some SwiftProtobuf.Message) throws {
    self.bytes = try message.serializedBytes()
  }
}
