import CLinux
package import Connectivity
import Glibc

/// The sockets of all users as samples for a diagnosis, read from the kernel in parts
/// (sock_diag(7)).
///
/// Any user may read them. Sockets of other network namespaces are not included.
///
/// Not thread-safe: one thread owns it.
package final class SampleDump {
  package enum Kind: Sendable {
    /// TCP sockets that still allow data, that wait for the answer to a SYN, or that listen.
    case tcp
    /// UDP sockets that are connected to this port.
    case udp(port: UInt16)
  }

  /// The sockets of one datagram.
  package struct Part: Sendable {
    package var samples: [SocketSample] = []
    /// The ports on which this machine listens.
    package var listening: Set<UInt16> = []

    package init() {}
  }

  private let requester: Requester
  private var rest: [(family: AddressFamily, kind: Kind)] = []
  private var exchange: Exchange?

  /// - Parameter socket: A netlink socket of the protocol `NETLINK_SOCK_DIAG` for dumps alone.
  package init(on socket: any DatagramSocket) throws(NetlinkError) {
    self.requester = try Requester(on: socket)
  }

  /// Begins a dump. An earlier dump must have ended.
  package func begin(_ kind: Kind) {
    self.rest = AddressFamily.allCases.map { ($0, kind) }
  }

  /// Reads the sockets of one datagram: about 80.
  ///
  /// - Returns: The next sockets, or `nil` after the last ones.
  package func next() throws(NetlinkError) -> Part? {
    guard let (family, kind) = self.rest.first else { return nil }
    var request = Request(samplesOf: family, kind)
    var exchange: Exchange
    if let begun = self.exchange {
      exchange = begun
    } else {
      exchange = try self.requester.begin(&request)
    }
    var part = Part()
    let outcome = self.requester.readPart(of: &exchange, request.operation) { message in
      part.add(message, kind)
    }
    self.exchange = exchange
    switch outcome {
    case nil: break
    case .complete: self.endFamily()
    case .failed(let error):
      // A kernel without IPv6, or without UDP's part of sock_diag, has no such sockets.
      guard error.isUnsupported || error.code == ENOENT else { throw error }
      self.endFamily()
    }
    return part
  }

  private func endFamily() {
    self.rest.removeFirst()
    self.exchange = nil
  }
}

/// States of net/tcp_states.h.
private enum State {
  static let established: UInt8 = 1
  static let synSent: UInt8 = 2
  static let listen: UInt8 = 10
  /// Also TCP_FIN_WAIT1, TCP_FIN_WAIT2 and TCP_CLOSE_WAIT.
  static let all = [established, synSent, 4, 5, 8, listen]
}

extension Request {
  fileprivate init(samplesOf family: AddressFamily, _ kind: SampleDump.Kind) {
    var header = inet_diag_req_v2()
    header.sdiag_family = family.netlinkNumber
    switch kind {
    case .tcp:
      header.sdiag_protocol = UInt8(IPPROTO_TCP)
      header.idiag_ext = UInt8(1 << (INET_DIAG_INFO - 1))
      header.idiag_states = State.all.reduce(0) { $0 | 1 << UInt32($1) }
    case .udp(let port):
      header.sdiag_protocol = UInt8(IPPROTO_UDP)
      header.idiag_states = 1 << UInt32(State.established)
      header.id.idiag_dport = port.bigEndian
    }
    self.init(Int(SOCK_DIAG_BY_FAMILY), "SOCK_DIAG_BY_FAMILY", isDump: true, header: header)
  }
}

extension SampleDump.Part {
  mutating func add(_ message: Message, _ kind: SampleDump.Kind) {
    let bytes = message.payload
    if case .tcp = kind, bytes.load(UInt8.self, at: Offset.state) == State.listen {
      if let port = bytes.load(UInt16.self, at: Offset.sourcePort) {
        self.listening.insert(UInt16(bigEndian: port))
      }
    } else if let sample = SocketSample(bytes, kind) {
      self.samples.append(sample)
    }
  }
}

/// Offsets in `struct inet_diag_msg`: four octets, an `inet_diag_sockid`, and five numbers.
private enum Offset {
  static let state = 1
  static let timer = 2
  static let sourcePort = 4
  static let port = 6
  static let source = 8
  static let host = 24
  static let link = 40
  static let cookie = 44
  static let unread = 56
  static let queued = 60
  static let user = 64
  static let inode = 68
}

extension SocketSample {
  /// Reads an `inet_diag_msg` with its `tcp_info`, or returns `nil` for a message that lacks
  /// something.
  fileprivate init?(_ bytes: Bytes, _ kind: SampleDump.Kind) {
    guard
      let family = bytes.load(UInt8.self, at: 0),
      let state = bytes.load(UInt8.self, at: Offset.state),
      let timer = bytes.load(UInt8.self, at: Offset.timer),
      let sourcePort = bytes.load(UInt16.self, at: Offset.sourcePort),
      let port = bytes.load(UInt16.self, at: Offset.port),
      let source = bytes.address(at: Offset.source, family),
      let host = bytes.address(at: Offset.host, family),
      let link = bytes.load(UInt32.self, at: Offset.link),
      let cookie = bytes.load(UInt64.self, at: Offset.cookie),
      let unread = bytes.load(UInt32.self, at: Offset.unread),
      let queued = bytes.load(UInt32.self, at: Offset.queued),
      let user = bytes.load(UInt32.self, at: Offset.user),
      let inode = bytes.load(UInt32.self, at: Offset.inode)
    else { return nil }
    var tcp: TCPState?
    if case .tcp = kind {
      guard let read = TCPState(bytes, isConnecting: state == State.synSent) else { return nil }
      tcp = read
    }
    self.init(
      cookie: cookie, inode: UInt64(inode), user: user, source: source,
      sourcePort: UInt16(bigEndian: sourcePort), host: host, port: UInt16(bigEndian: port),
      link: link, unread: unread, queued: queued, timer: timer, tcp: tcp)
  }
}

extension SocketSample.TCPState {
  fileprivate init?(_ message: Bytes, isConnecting: Bool) {
    typealias Field = SocketReport.TCPInfo
    var attributes = AttributeReader(message, after: MemoryLayout<inet_diag_msg>.size)
    var info: Bytes?
    while let attribute = attributes.next() {
      if attribute.type == INET_DIAG_INFO { info = attribute.payload }
    }
    guard
      let info, !attributes.isMalformed,
      let timeouts = info.load(UInt8.self, at: Field.retransmits),
      let backoff = info.load(UInt8.self, at: Field.backoff),
      let inFlight = info.load(UInt32.self, at: Field.unacknowledged),
      let sentAgain = info.load(UInt32.self, at: Field.retransmitted),
      let resent = info.load(UInt32.self, at: Field.sentAgain),
      let received = info.load(UInt32.self, at: Field.segmentsReceived),
      let unsent = info.load(UInt32.self, at: Field.unsent),
      let segmentSize = info.load(UInt32.self, at: Field.segmentSize),
      let timeout = info.load(UInt32.self, at: Field.timeout),
      let data = info.load(UInt32.self, at: Field.lastDataReceived),
      let acknowledgement = info.load(UInt32.self, at: Field.lastAcknowledgementReceived)
    else { return nil }
    self.init(
      isConnecting: isConnecting, timeouts: timeouts, backoff: backoff, inFlight: inFlight,
      sentAgain: sentAgain, resent: resent, received: received, unsent: unsent,
      segmentSize: segmentSize, window: info.load(UInt32.self, at: Field.window),
      timeout: .microseconds(Int64(timeout)),
      silence: .milliseconds(Int64(min(data, acknowledgement))))
  }
}
