import CLinux
package import Connectivity
import Glibc

/// Asks the kernel about single TCP sockets (sock_diag(7)).
///
/// Any user may ask about the sockets of all users. A query names the socket by its addresses and
/// ports, and the kernel finds it by a hash. It takes about 2 µs, however many sockets exist.
///
/// Not thread-safe: one thread owns it.
///
/// Implements rule E1.
package final class SocketDiagnosis {
  private let requester: Requester

  /// - Parameter socket: A netlink socket of the protocol `NETLINK_SOCK_DIAG`.
  package init(on socket: any DatagramSocket) throws(NetlinkError) {
    self.requester = try Requester(on: socket)
  }

  /// Returns the kernel's report about each connection. A report is `nil` if the connection has no
  /// socket here, or the socket is in TIME_WAIT.
  ///
  /// - Parameter connections: Each must name a socket (``Destination/namesSocket``).
  package func reports(
    on connections: [Destination]
  ) throws(NetlinkError) -> [SocketReport?] {
    let answers = try self.requester.answers(
      for: connections, request: Request.init(socketOf:), read: SocketReport.init(message:))
    return answers.map { if case .success(let report)? = $0 { report } else { nil } }
  }

  /// Ends a connection: the kernel resets it, and the program that has it open gets ECONNABORTED.
  /// Needs CAP_NET_ADMIN.
  ///
  /// - Parameters:
  ///   - connection: It must name a socket.
  ///   - cookie: The kernel's number of the socket. Another socket is not ended.
  /// - Throws: ``NetlinkError`` with ENOENT if the socket no longer exists, EPERM without the
  ///   capability, EOPNOTSUPP if the kernel was built without CONFIG_INET_DIAG_DESTROY.
  package func destroy(_ connection: Destination, cookie: UInt64) throws(NetlinkError) {
    try self.requester.command(Request(destroying: connection, cookie))
  }
}

extension Request {
  /// Asks for the one socket of a connection. The kernel compares the link only if the socket is
  /// bound to a link (`inet_bound_dev_eq`).
  fileprivate init(socketOf connection: Destination) {
    // INET_DIAG_NOCOOKIE: the addresses and ports identify the socket.
    let header = inet_diag_req_v2(socketOf: connection, cookie: .max)
    self.init(Int(SOCK_DIAG_BY_FAMILY), "SOCK_DIAG_BY_FAMILY", header: header)
  }

  fileprivate init(destroying connection: Destination, _ cookie: UInt64) {
    let header = inet_diag_req_v2(socketOf: connection, cookie: cookie)
    self.init(Int(SOCK_DESTROY), "SOCK_DESTROY", isCommand: true, header: header)
  }
}

extension inet_diag_req_v2 {
  fileprivate init(socketOf connection: Destination, cookie: UInt64) {
    self.init()
    self.sdiag_family = connection.address.family.netlinkNumber
    self.sdiag_protocol = UInt8(IPPROTO_TCP)
    self.idiag_ext = UInt8(1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1))
    self.idiag_states = .max
    self.id.idiag_sport = (connection.transport?.localPort ?? 0).bigEndian
    self.id.idiag_dport = (connection.transport?.remotePort ?? 0).bigEndian
    withUnsafeMutableBytes(of: &self.id.idiag_src) { bytes in
      if let source = connection.source { bytes.copyBytes(from: source.bytes) }
    }
    withUnsafeMutableBytes(of: &self.id.idiag_dst) { bytes in
      bytes.copyBytes(from: connection.address.bytes)
    }
    self.id.idiag_if = connection.outLink ?? 0
    self.id.idiag_cookie = (
      UInt32(truncatingIfNeeded: cookie), UInt32(truncatingIfNeeded: cookie >> 32)
    )
  }
}

extension SocketReport {
  /// Reads an `inet_diag_msg` and its `tcp_info`.
  init?(message: Message) {
    let header = message.payload
    guard
      let timer = header.load(UInt8.self, at: 2),
      let expiry = header.load(UInt32.self, at: Self.expiryOffset),
      let queued = header.load(UInt32.self, at: Self.queueOffset),
      let owner = header.load(UInt32.self, at: Self.ownerOffset)
    else { return nil }
    var attributes = AttributeReader(header, after: MemoryLayout<inet_diag_msg>.size)
    var info: Bytes?
    var memory: Bytes?
    while let attribute = attributes.next() {
      if attribute.type == INET_DIAG_INFO { info = attribute.payload }
      if attribute.type == INET_DIAG_SKMEMINFO { memory = attribute.payload }
    }
    guard
      !attributes.isMalformed, let info,
      let retransmits = info.load(UInt8.self, at: TCPInfo.retransmits),
      let backoff = info.load(UInt8.self, at: TCPInfo.backoff),
      let probes = info.load(UInt8.self, at: TCPInfo.probes),
      let timeout = info.load(UInt32.self, at: TCPInfo.timeout),
      let unacknowledged = info.load(UInt32.self, at: TCPInfo.unacknowledged),
      let unsent = info.load(UInt32.self, at: TCPInfo.unsent),
      let dataReceived = info.load(UInt32.self, at: TCPInfo.lastDataReceived),
      let acknowledgementReceived = info.load(
        UInt32.self, at: TCPInfo.lastAcknowledgementReceived),
      let roundTrip = info.load(UInt32.self, at: TCPInfo.roundTrip),
      let sentAgain = info.load(UInt32.self, at: TCPInfo.sentAgain),
      let acknowledged = info.load(UInt64.self, at: TCPInfo.bytesAcknowledged),
      let segments = info.load(UInt32.self, at: TCPInfo.segmentsSent),
      let received = info.load(UInt32.self, at: TCPInfo.segmentsReceived),
      let dataSegmentsReceived = info.load(UInt32.self, at: TCPInfo.dataSegmentsReceived)
    else { return nil }
    self.init(
      silence: .milliseconds(Int64(min(dataReceived, acknowledgementReceived))),
      dataSilence: .milliseconds(Int64(dataReceived)), progress: acknowledged,
      inFlight: UInt64(queued - min(queued, unsent)), roundTrip: .microseconds(Int64(roundTrip)),
      timeouts: Int(unacknowledged > 0 ? max(retransmits, backoff) : unsent > 0 ? probes : 0),
      // The timer of a closed window doubles without changing the retransmission timeout.
      timeout: .microseconds(Int64(timeout))
        * (unacknowledged > 0 ? 1 : 1 << Int(min(backoff, 16))),
      hasUnacknowledgedData: unacknowledged > 0 || unsent > 0, resent: UInt64(sentAgain),
      segments: segments, probes: unacknowledged > 0 || unsent > 0 ? 0 : Int(probes),
      acknowledgements: received &- dataSegmentsReceived,
      queued: memory?.load(UInt32.self, at: Self.queuedOffset) ?? 0,
      nextTimeout: Self.timers.contains(timer) ? .milliseconds(Int64(expiry)) : nil,
      owner: owner)
  }

  /// The offset of `idiag_expires`, after four octets and an `inet_diag_sockid`.
  private static let expiryOffset = 4 + MemoryLayout<inet_diag_sockid>.size
  /// The offset of `idiag_wqueue`, the number of bytes that are not acknowledged, sent or not.
  private static let queueOffset = expiryOffset + 8
  /// The offset of `idiag_uid`.
  private static let ownerOffset = queueOffset + 4
  /// The offset of `SK_MEMINFO_WMEM_ALLOC` in `INET_DIAG_SKMEMINFO` (linux/sock_diag.h).
  private static let queuedOffset = 2 * MemoryLayout<UInt32>.size
  /// The values of `idiag_timer` while a retransmission, tail-loss probe or window probe is due.
  private static let timers: Set<UInt8> = [1, 4]

  /// Offsets in `struct tcp_info`. The header that declares it cannot be included beside
  /// netinet/tcp.h.
  enum TCPInfo {
    static let retransmits = 2
    static let probes = 3
    static let backoff = 4
    static let timeout = 8
    static let segmentSize = 16
    static let unacknowledged = 24
    /// The number of retransmitted segments in flight.
    static let retransmitted = 36
    static let lastDataReceived = 52
    static let lastAcknowledgementReceived = 56
    static let roundTrip = 68
    static let sentAgain = 100
    static let bytesAcknowledged = 120
    static let segmentsSent = 136
    static let segmentsReceived = 140
    static let unsent = 144
    static let dataSegmentsReceived = 152
    /// Since Linux 5.4.
    static let window = 228
  }
}
