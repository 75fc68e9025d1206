import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import LinuxSupport
import Logging
import Synchronization
import Testing
import UnixTransport

@testable import ConndServer
@testable import Netlink

@Suite("Listing connections")
struct ConnectionListingTests {
  /// The connections of user 1000 in an order that is not that of their keys, in parts of 80.
  private static func parts(_ count: Int) throws -> [[OpenConnection]] {
    let remote = try #require(IPAddress("203.0.113.9"))
    let all = (0..<count).map { number in
      // The factor is coprime to each count.
      let port = UInt16(1 + number * 7919 % count)
      return OpenConnection(
        destination: Destination(
          remote, uid: 1000, source: IPAddress("192.0.2.7"),
          transport: Transport(6, localPort: port, remotePort: 443)),
        inode: UInt64(number + 1),
        report: SocketReport(silence: .zero, roundTrip: .milliseconds(1)))
    }
    return stride(from: 0, to: count, by: 80).map { Array(all[$0..<min($0 + 80, count)]) }
  }

  /// The number of parts that were read.
  private final class Reads: Sendable {
    let count = Atomic(0)
  }

  private func listing(_ parts: [[OpenConnection]], _ reads: Reads = Reads()) -> ConnectionListing {
    ConnectionListing(begin: {
      var rest = parts[...]
      return {
        reads.count.wrappingAdd(1, ordering: .relaxed)
        return rest.popFirst()
      }
    })
  }

  @Test("D4 a user has 16,000 connections → a listing keeps a page and a quarter, no more")
  func bounded() async throws {
    let parts = try Self.parts(16_000)
    let keys = parts.joined().map(\.key).sorted()
    var page = try PageRequest(size: 1000, token: "", of: "connections")
    var most = 0
    let first = try await self.listing(parts).connections(
      of: 1000, on: page, count: 1001, keep: { most = max(most, $0) })
    #expect(first.map(\.key) == Array(keys.prefix(1001)))
    let bound = ConnectionListing.costOfDump + 1251 * ConnectionListing.costOfConnection
    #expect(most <= bound, "\(most) bytes")

    var encoded = EncodedPage(page)
    for entry in first {
      guard encoded.append(Connectivity_V1_ListConnectionsResponse(), key: entry.key) else { break }
    }
    let ended = encoded.ended { token in
      Connectivity_V1_ListConnectionsResponse.with { $0.nextPageToken = token }
    }
    let token = try Connectivity_V1_ListConnectionsResponse(serializedBytes: ended).nextPageToken
    page = try PageRequest(size: 1000, token: token, of: "connections")
    let second = try await self.listing(parts).connections(
      of: 1000, on: page, count: 1001, keep: { _ in })
    #expect(second.map(\.key) == Array(keys[1000..<2001]))
  }

  @Test("D4 the cost of a connection covers its entry")
  func cost() throws {
    let text = String(repeating: "x", count: 39)
    // The longest key, with the header of its storage, in an array with room for a half more.
    let key = 32 + "\(text) 65535 \(text) 65535 4294967295".utf8.count
    let entry = MemoryLayout<ConnectionListing.Entry>.stride
    #expect(entry * 3 / 2 + key <= ConnectionListing.costOfConnection, "\(entry) + \(key)")
  }

  @Test("D4 the client leaves → the listing stops at the next part")
  func stops() async throws {
    let reads = Reads()
    let listing = self.listing(try Self.parts(8000), reads)
    let page = try PageRequest(size: 0, token: "", of: "connections")
    let turn = AccountTurns.Turn()
    await #expect(throws: CancellationError.self) {
      _ = try await listing.connections(of: 1000, on: page, count: 4097) { bytes in
        if turn.isCancelled { throw CancellationError() }
        if bytes > ConnectionListing.costOfDump + 400 * ConnectionListing.costOfConnection {
          turn.cancel()
        }
      }
    }
    #expect((6...7).contains(reads.count.load(ordering: .relaxed)))
  }

  @Test("D4 listings count as their account's pending memory → refused above the limit")
  func memory() async throws {
    var limits = Limits()
    limits.pendingMemoryPerUser = 5 << 18
    let limiter = ConnectionLimiter(
      limits, statistics: Statistics(),
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    let peer = PeerCredentials(uid: 1000, pid: 7)
    let page = try PageRequest(size: 0, token: "", of: "connections")
    do {
      let memory = CallMemory(of: peer, limiter)
      let refusal = try await #require(throws: Refusal.self) {
        _ = try await self.listing(try Self.parts(8000)).connections(
          of: 1000, on: page, count: 4097, keep: { try memory.set(.requests, to: $0) })
      }
      #expect(refusal.message.contains("limits.pendingMemoryPerUser"))
    }
    // Nothing of the refused listing is counted any more.
    let memory = CallMemory(of: peer, limiter)
    let listed = try await self.listing(try Self.parts(1500)).connections(
      of: 1000, on: page, count: 4097, keep: { try memory.set(.requests, to: $0) })
    #expect(listed.count == 1500)
  }
}
