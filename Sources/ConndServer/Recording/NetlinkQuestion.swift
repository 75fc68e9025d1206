import CLinux
import Glibc
import Netlink

/// A request without what is another in each run: its sequence number and its port.
struct NetlinkQuestion: Hashable {
  var role: SocketRole
  var message: [UInt8]
}

/// What came on a socket as answer to one request, in its order.
enum NetlinkAnswer: Hashable {
  case message([UInt8])
  case failed(RecordedReception)
  /// The request could not be sent.
  case unsent(error: CInt)
}

/// A netlink message in bytes, by the fields of its header.
struct NetlinkMessage {
  var bytes: [UInt8]

  /// The messages of a datagram, as far as their lengths can be true.
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

  var type: UInt16 { UInt16(truncatingIfNeeded: number(self.bytes[4..<6])) }
  var isDump: Bool { number(self.bytes[6..<8]) & UInt32(NLM_F_DUMP) == UInt32(NLM_F_DUMP) }

  var sequence: UInt32 {
    get { number(self.bytes[8..<12]) }
    set { self.set(newValue, at: 8) }
  }

  /// That of the socket which asked.
  var port: UInt32 {
    get { number(self.bytes[12..<16]) }
    set { self.set(newValue, at: 12) }
  }

  /// What tells the request from others.
  func question(_ role: SocketRole) -> NetlinkQuestion {
    var message = self
    (message.sequence, message.port) = (0, 0)
    return NetlinkQuestion(role: role, message: message.bytes)
  }

  /// The answer that there is nothing of what was asked for, where nothing else is known.
  func notThere(_ role: SocketRole) -> NetlinkMessage {
    let code: CInt =
      switch (role, Int(self.type)) {
      // Of any other error nl80211 is asked again and again.
      case (.wirelessRequester, _): ENODEV
      case (_, Int(RTM_GETROUTE)): ENETUNREACH
      case (_, Int(RTM_GETLINK)): ENODEV
      default: ENOENT
      }
    // The end of an empty list is a number; an error brings the header of the request.
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

/// Netlink's numbers are in host order; a recording's machine may have another, which it is not replayed on.
private func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
  bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
}

private func octets(_ number: UInt32) -> [UInt8] {
  withUnsafeBytes(of: number.littleEndian) { Array($0) }
}

/// Tells which answers belong to which requests, by their sequence numbers.
struct Exchanges {
  /// The ports that the sockets were bound to.
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
      for message in NetlinkMessage.messages(of: bytes) {
        // Late answers to a request that was given up.
        guard let place = self.open[role]?.places[message.sequence],
          message.port == self.ports[role] ?? message.port
        else { continue }
        self.open[role]?.answers[place].append(.message(message.bytes))
      }
    // Where nothing more is there to be read, nothing comes.
    case .foreign, .nothing: break
    case .truncated, .overrun, .failed:
      // Of requests that were sent together each is asked again that has no answer.
      guard self.open[role]?.requests.count == 1 else { return }
      self.open[role]?.answers[0].append(.failed(reception))
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
