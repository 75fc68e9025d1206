// The history and recordings store messages of the API, which every later version can read. No
// other file outside Server/ uses protobuf.
import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol

/// A change and its message, serialised once for the history and all subscribers. A class, so that
/// all of them share it.
final class Published: Sendable {
  let change: ConnectivityChange
  let message: [UInt8]

  init(_ change: ConnectivityChange) {
    self.change = change
    self.message = change.watchResponse(networkNamespace: ProcessNamespace.reported)
  }

  /// Decodes a stored message.
  ///
  /// - Throws: ``UnknownChange`` if a newer connd has stored it.
  init(decoding bytes: [UInt8]) throws {
    let response = try Connectivity_V1_WatchResponse(serializedBytes: bytes)
    let event = try WatchEvent(response)
    if event == nil, response.generation > 0 {
      throw UnknownChange(generation: response.generation)
    }
    guard case .change(let change) = event else { throw UnexpectedMessage() }
    self.change = change
    self.message = bytes
  }
}

/// The error for a stored change of a kind that this version does not know.
struct UnknownChange: Error { var generation: UInt64 }

/// The error for a stored message of another kind.
struct UnexpectedMessage: Error {}

extension ConnectivitySnapshot {
  /// The stored form, as in a recording's header.
  var stored: [UInt8] { Connectivity_V1_WatchResponse.snapshot(self).serializedBytes() }

  init(stored bytes: [UInt8]) throws {
    let response = try Connectivity_V1_WatchResponse(serializedBytes: bytes)
    guard case .snapshot(let snapshot) = try WatchEvent(response) else { throw UnexpectedMessage() }
    self = snapshot
  }
}

extension KernelPath {
  /// The stored form, as in a recorded registration.
  var stored: [UInt8] { Connectivity_V1_Path(self).serializedBytes() }

  init(stored bytes: [UInt8]) throws {
    self = try KernelPath(Connectivity_V1_Path(serializedBytes: bytes))
  }
}
