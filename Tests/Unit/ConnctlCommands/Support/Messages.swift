import ConnectivityProtobuf
import ConnectivityProtocol

@testable import ConnectivityMonitor

// The library reads and writes messages by itself. The tests use the generated types.

extension GuardedFlows {
  mutating func requests() -> [Connectivity_V1_GuardRequest] {
    self.pendingRequests().compactMap { try? Connectivity_V1_GuardRequest(serializedBytes: $0) }
  }

  /// Returns the first event.
  mutating func received(_ message: Connectivity_V1_GuardResponse) throws -> GuardEvent? {
    try self.received(message.serializedBytes()).first
  }
}

extension FollowedStatus {
  mutating func received(_ message: Connectivity_V1_WatchResponse) throws -> StatusEvent? {
    try self.received(message.serializedBytes())
  }
}
