import CLinux
import Glibc
import Netlink

/// A request without the fields that differ in each run: sequence number and port.
struct NetlinkQuestion: Hashable {
  var role: SocketRole
  var message: [UInt8]
}

/// A part of the answer to one request on a socket.
enum NetlinkAnswer: Hashable {
  /// The messages of one datagram that belong to the request.
  case datagram([UInt8])
  case failed(RecordedReception)
  /// The request could not be sent.
  case unsent(error: CInt)
}

/// A netlink message as bytes, with access to the fields of its header.
struct NetlinkMessage {
  var bytes: [UInt8]

  /// Returns the messages of a datagram, up to the first invalid length.
  static func messages(of datagram: some Collection<UInt8>) -> [NetlinkMessage] {
    var rest = Array(datagram)[...]
    var messages: [NetlinkMessage] = []
    while rest.count >= self.headerSize {
      let length = Int(number(rest.prefix(4)))
      guard length >= self.headerSize, length <= rest.count else { break }
      messages.append(NetlinkMessage(bytes: Array(rest.prefix(length))))
      rest = rest.dropFirst((length + 3) & ~3)
    }
    return messages
  }

  private static let headerSize = 16

  /// The message, padded so that another one can follow it.
  var padded: [UInt8] { self.bytes + Array(repeating: 0, count: -self.bytes.count & 3) }

  var type: UInt16 { UInt16(truncatingIfNeeded: number(self.bytes[4..<6])) }
  var isDump: Bool { number(self.bytes[6..<8]) & UInt32(NLM_F_DUMP) == UInt32(NLM_F_DUMP) }

  var sequence: UInt32 {
    get { number(self.bytes[8..<12]) }
    set { self.set(newValue, at: 8) }
  }

  /// The port of the requesting socket.
  var port: UInt32 {
    get { number(self.bytes[12..<16]) }
    set { self.set(newValue, at: 12) }
  }

  /// Whether the message is the request of `Requester.waitForChanges`, for the greatest index.
  var waitsForChanges: Bool {
    Int(self.type) == Int(RTM_GETLINK) && self.bytes.count >= 24
      && number(self.bytes[20..<24]) == UInt32(Int32.max)
  }

  /// Returns the key under which the request's answer is stored.
  func question(_ role: SocketRole) -> NetlinkQuestion {
    var message = self
    (message.sequence, message.port) = (0, 0)
    return NetlinkQuestion(role: role, message: message.bytes)
  }

  /// Returns a "not found" answer for a request without a recorded answer.
  func notThere(_ role: SocketRole) -> NetlinkMessage {
    let code: CInt =
      switch (role, Int(self.type)) {
      // nl80211 would be queried repeatedly after any other error.
      case (.wirelessRequester, _): ENODEV
      case (_, Int(RTM_GETROUTE)): ENETUNREACH
      case (_, Int(RTM_GETLINK)): ENODEV
      default: ENOENT
      }
    // The end of an empty list contains a number. An error contains the header of the request.
    let payload =
      self.isDump ? octets(0) : octets(UInt32(bitPattern: -code)) + self.bytes.prefix(16)
    var header = octets(UInt32(16 + payload.count))
    header += octets(UInt32(self.isDump ? NLMSG_DONE : NLMSG_ERROR)).prefix(2) + [0, 0]
    var answer = NetlinkMessage(bytes: header + octets(0) + octets(0) + payload)
    answer.sequence = self.sequence
    return answer
  }

  private mutating func set(_ number: UInt32, at offset: Int) {
    self.bytes.replaceSubrange(offset..<offset + 4, with: octets(number))
  }
}

/// Reads a netlink number. Netlink uses host byte order. Recordings of big-endian machines are not
/// supported.
private func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
  bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
}

private func octets(_ number: UInt32) -> [UInt8] {
  withUnsafeBytes(of: number.littleEndian) { Array($0) }
}

/// The open exchanges of each socket. Answers belong to requests with the same sequence number.
struct Exchanges {
  /// The ports to which the sockets were bound.
  var ports: [SocketRole: UInt32] = [:]
  private var open: [SocketRole: Exchange] = [:]

  private struct Exchange {
    var turn: Int
    var requests: [NetlinkMessage]
    var answers: [[NetlinkAnswer]]
    var places: [UInt32: Int] = [:]
  }

  mutating func begin(
    _ role: SocketRole, _ datagram: [UInt8], _ error: CInt, in turn: Int,
    _ answers: inout Recording.Answers
  ) {
    self.finish(role, &answers)
    let requests = NetlinkMessage.messages(of: datagram)
    var exchange = Exchange(
      turn: turn, requests: requests,
      answers: Array(
        repeating: error == 0 ? [] : [.unsent(error: error)], count: requests.count))
    for (place, request) in requests.enumerated() { exchange.places[request.sequence] = place }
    self.open[role] = exchange
  }

  mutating func receive(_ role: SocketRole, _ reception: RecordedReception) {
    switch reception {
    case .datagram(let bytes):
      // Groups the messages by request. connd reads one datagram of a list of links in each turn.
      var parts: [Int: [UInt8]] = [:]
      for message in NetlinkMessage.messages(of: bytes) {
        // Skips late answers to a request that was abandoned.
        guard let place = self.open[role]?.places[message.sequence],
          message.port == self.ports[role] ?? message.port
        else { continue }
        parts[place, default: []] += message.padded
      }
      for (place, part) in parts { self.open[role]?.answers[place].append(.datagram(part)) }
    // Without data to read, nothing is added to the answer.
    case .foreign, .nothing: break
    case .truncated, .overrun, .failed:
      // If several requests were sent together, connd repeats each unanswered request on its own.
      // The request that waits for changes (K2) has the sequence number 0 and does not count.
      guard let requests = self.open[role]?.requests else { return }
      let places = requests.indices.filter { requests[$0].sequence != 0 }
      guard places.count == 1 else { return }
      self.open[role]?.answers[places[0]].append(.failed(reception))
    }
  }

  private mutating func finish(_ role: SocketRole, _ answers: inout Recording.Answers) {
    guard let exchange = self.open.removeValue(forKey: role) else { return }
    for (request, answer) in zip(exchange.requests, exchange.answers) {
      answers.requests.append(answer, to: request.question(role), in: exchange.turn)
    }
  }

  mutating func finish(_ answers: inout Recording.Answers) {
    for role in SocketRole.allCases { self.finish(role, &answers) }
  }
}
