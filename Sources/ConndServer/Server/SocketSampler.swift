import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink

/// Reads the sockets of all users for diagnoses, outside the monitor thread.
///
/// Implements rules D4 and Q7.
struct SocketSampler: Sendable {
  /// The maximum number of diagnoses of a user that run at a time. Further ones wait.
  static let maxPerUser = 1
  /// The maximum number of paths that a diagnosis looks up, each at most twice.
  static let maxPaths = 16
  /// The number of intervals between the first and the last sample.
  static let intervals = 10
  static let interval = Duration.milliseconds(100)
  /// The memory of a dump's socket, in connd and in the kernel, in bytes.
  static let costOfDump = 96 << 10
  /// The memory of a socket that is compared, in bytes.
  static let costOfSocket = 512

  /// Returns the next sockets, or `nil` after the last ones.
  typealias Dump = () throws(NetlinkError) -> SampleDump.Part?

  /// Begins to read the kernel's sockets.
  var begin: @Sendable (SampleDump.Kind) throws(NetlinkError) -> Dump = {
    (kind) throws(NetlinkError) in
    let dump = try SampleDump(on: try KernelSockets().open(.socketDiagnosis))
    dump.begin(kind)
    return { () throws(NetlinkError) in try dump.next() }
  }
  /// Returns the number of retransmissions that this machine did not let out, or `nil` if unknown.
  var failedRetransmissions: @Sendable () -> UInt64? = { RetransmissionCounter.read() }

  /// The result of sampling.
  struct Result {
    var sockets: ComparedSockets
    var names = NameQueries()
    /// The number of retransmissions between the samples that this machine did not let out.
    var failedRetransmissions: UInt64 = 0
  }

  /// Samples TCP sockets twice, and sockets of DNS queries at each interval.
  ///
  /// - Parameters:
  ///   - sockets: The empty collection for the sockets.
  ///   - servers: The DNS servers of the settings.
  ///   - wait: Waits for an interval. An error ends the diagnosis.
  ///   - keep: Called before each part with the number of bytes that are kept. An error ends the
  ///     diagnosis.
  func sample(
    into sockets: ComparedSockets, servers: Set<IPAddress>, wait: () async throws -> Void,
    keep: (_ bytes: Int) throws -> Void
  ) async throws -> Result {
    var result = Result(sockets: sockets)
    let failed = self.failedRetransmissions()
    try await self.read(.tcp, &result, keep) { $0.sockets.addFirst($1) }
    for step in 0...Self.intervals {
      if step > 0 { try await wait() }
      var queries: [SocketSample] = []
      try await self.read(.udp(port: Self.dnsPort), &result, keep) { _, part in
        queries += part.samples.prefix(max(0, Self.maxQueries - queries.count))
      }
      result.names.add(queries, servers: servers)
    }
    try await self.read(.tcp, &result, keep) { $0.sockets.addSecond($1) }
    if let failed, let now = self.failedRetransmissions() {
      result.failedRetransmissions = now - min(failed, now)
    }
    return result
  }

  private static let dnsPort: UInt16 = 53
  /// The maximum number of sockets of DNS queries.
  private static let maxQueries = 256

  private func read(
    _ kind: SampleDump.Kind, _ result: inout Result, _ keep: (_ bytes: Int) throws -> Void,
    _ add: (inout Result, SampleDump.Part) -> Void
  ) async throws {
    let next = try self.begin(kind)
    while let part = try next() {
      add(&result, part)
      try keep(
        Self.costOfDump + (result.sockets.count + Self.maxQueries) * Self.costOfSocket)
      // Let other clients' requests run in between.
      await Task.yield()
    }
  }
}

/// The counter `TCPRetransFail` of this network namespace.
enum RetransmissionCounter {
  static func read(_ path: String = "/proc/self/net/netstat") -> UInt64? {
    guard let bytes = try? contents(of: path, max: 1 << 16) else { return nil }
    return self.value(in: String(decoding: bytes, as: UTF8.self))
  }

  /// Returns the counter in the text of proc_net_netstat(5): a line of names, and one of values.
  static func value(in text: String) -> UInt64? {
    let lines = text.split(separator: "\n").filter { $0.hasPrefix("TcpExt:") }
      .map { $0.split(separator: " ") }
    guard lines.count == 2, let place = lines[0].firstIndex(of: "TCPRetransFail"),
      lines[1].indices.contains(place)
    else { return nil }
    return UInt64(lines[1][place])
  }
}
