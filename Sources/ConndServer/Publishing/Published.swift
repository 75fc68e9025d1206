import Connectivity
import ConnectivityProtocol
import SwiftProtobuf

/// A change and its message, serialised once for all subscribers.
struct Published: Sendable {
  let change: Change
  let message: EncodedMessage

  init(_ change: Change) throws {
    self.change = change
    self.message = try EncodedMessage(
      Connectivity_V1_WatchResponse(change, networkNamespace: NetworkNamespace.told))
  }

  /// Decodes a stored message.
  init(decoding bytes: [UInt8]) throws {
    let response = try Connectivity_V1_WatchResponse(serializedBytes: bytes)
    guard case .change(let change) = try WatchEvent(response) else { throw NotAChange() }
    self.change = change
    self.message = EncodedMessage(bytes: bytes)
  }
}

/// The error for a message with a snapshot or a gap, which are not stored.
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
