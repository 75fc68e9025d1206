import Connectivity
import ConnectivityProtocol
import GRPCCore
import Netlink
import UnixTransport

/// The call ListConnections, the only call with an answer that may need megabytes of memory.
///
/// Implements rule D4.
extension DiagnosticsService {
  /// Lists a page of the caller's connections when it is the caller's turn. Until it ends, the call
  /// counts as a pending query.
  func listConnections(
    _ request: Connectivity_V1_ListConnectionsRequest, _ caller: PeerCredentials
  ) async throws -> [UInt8] {
    let size = request.pageSize == 0 ? Int32.max : request.pageSize
    let bound = min(size, Int32(ConnectionListing.maxPage))
    let page = try PageRequest(size: bound, token: request.pageToken, of: "connections")
    return try await self.queries.admitted(for: caller) {
      try await self.inTurn(self.listings, for: caller) { turn, memory in
        try await self.connections(on: page, Int(bound), caller) { part, bytes in
          if turn.isCancelled { throw CancellationError() }
          try memory.keep(part, bytes)
        }
      }
    }
  }

  /// - Parameter keep: Called before each part with the number of bytes that are kept. An error
  ///   ends the listing.
  private func connections(
    on page: PageRequest, _ bound: Int, _ caller: PeerCredentials,
    keep: (CallMemory.Part, _ bytes: Int) throws -> Void
  ) async throws -> [UInt8] {
    let listed: [ConnectionListing.Entry]
    do {
      // One more connection shows whether there is another page.
      listed = try await self.connections.connections(
        of: caller.uid, on: page, count: bound + 1
      ) { try keep(.requests, $0) }
    } catch let error as NetlinkError {
      throw RPCError(code: .unavailable, message: "the kernel cannot be asked: \(error)")
    }
    try keep(.requests, listed.count * ConnectionListing.costOfConnection)
    var encoded = EncodedPage(page)
    var rest = listed[...]
    while !rest.isEmpty {
      let part = rest.prefix(ConnectionListing.part)
      rest = rest.dropFirst(part.count)
      let past = self.store.past
      let registrations = part.enumerated().map { $1.registration(UInt64($0), past) }
      let reports = try await self.queries.admittedAnswer(for: caller) {
        .judge(registrations, $0)
      }.orUnavailable()
      for (entry, report) in zip(part, reports) {
        let response = Connectivity_V1_ListConnectionsResponse.with {
          $0.connections = [Connectivity_V1_Connection(entry, report)]
        }
        guard encoded.append(response, key: entry.key) else {
          return encoded.ended { token in
            Connectivity_V1_ListConnectionsResponse.with { $0.nextPageToken = token }
          }
        }
      }
      try keep(.answers, encoded.bytes.count)
    }
    return encoded.bytes
  }
}
