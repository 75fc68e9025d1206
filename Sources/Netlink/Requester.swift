import CLinux
import Glibc

/// The socket that asks the kernel and waits for its answer.
///
/// An answer that does not come within the timeout is an error (ETIMEDOUT), never a hang. Every method blocks until
/// then at most. Not thread-safe: one thread owns it. The descriptor is closed on exec.
public final class Requester {
  private let socket: NetlinkSocket
  private var sequence: UInt32
  private let timeout: Duration

  /// How often a dump is begun again that changed under the reader, or met another dump.
  private static let attempts = 5

  /// Opens the socket.
  ///
  /// - Parameter timeout: How long to wait for each part of an answer.
  public init(timeout: Duration = .seconds(2)) throws(NetlinkError) {
    let socket = try NetlinkSocket(nonBlocking: false)
    // Without these (before 4.20) the kernel ignores filters and explains no error; both are made up for here.
    for option in [NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK] {
      _ = socket.set(option)
    }
    let (seconds, attoseconds) = timeout.components
    let time = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
    guard socket.setSocket(SO_RCVTIMEO, time) else { throw .last("set a timeout") }
    try socket.bind()
    self.socket = socket
    self.timeout = timeout
    // A socket of the same port may have gone before: its late answers must not be taken for ours.
    self.sequence = UInt32(truncatingIfNeeded: Glibc.time(nil))
  }

  /// The answer to a request for one object; `nil` where that object does not exist (`absences`).
  func object<Object>(
    _ request: consuming Request, absentIf absences: Set<CInt> = [],
    read: (Message) -> Object?
  ) throws(NetlinkError) -> Object? {
    let operation = request.operation
    do throws(NetlinkError) {
      var object: Object?
      try self.perform(request) {
        object = object ?? read($0)
      } restart: {
        object = nil
      }
      guard let object else { throw NetlinkError(operation: operation, code: EBADMSG) }
      return object
    } catch {
      guard absences.contains(error.code) else { throw error }
      return nil
    }
  }

  /// All objects of a dump that `read` makes something of.
  func objects<Object>(
    _ request: consuming Request, read: (Message) -> Object?
  ) throws(NetlinkError) -> [Object] {
    var objects: [Object] = []
    try self.perform(request) {
      if let object = read($0) { objects.append(object) }
    } restart: {
      objects = []
    }
    return objects
  }

  /// Sends a request and hands on the objects of its answer, from the beginning after each `restart`.
  private func perform(
    _ request: consuming Request, take: (Message) -> Void, restart: () -> Void
  ) throws(NetlinkError) {
    var request = request
    var failure = NetlinkError(operation: request.operation, code: EINTR)
    for _ in 0..<Self.attempts {
      self.sequence &+= 1
      try self.socket.send(request.bytes(sequence: self.sequence), operation: request.operation)
      switch self.answer(Exchange(isDump: request.isDump), take) {
      case .complete:
        return
      case .failed(let code, let message):
        failure = NetlinkError(operation: request.operation, code: code, message: message)
        guard Self.isTransient(code) else { throw failure }
      }
      restart()
      // An older dump that nobody read to its end keeps the socket busy.
      self.discard()
    }
    throw failure
  }

  private enum Outcome {
    case complete
    case failed(errno: CInt, message: String?)
  }

  private static func isTransient(_ code: CInt) -> Bool {
    code == EINTR || code == EBUSY || code == EMSGSIZE || code == ENOBUFS
  }

  /// Reads until the exchange is over. EINTR stands for an interrupted dump, EMSGSIZE for a lost datagram.
  private func answer(_ start: Exchange, _ take: (Message) -> Void) -> Outcome {
    var exchange = start
    let deadline = ContinuousClock.now + self.timeout
    while true {
      let datagram: UnsafeRawBufferPointer
      switch self.socket.receive() {
      case .datagram(let bytes): datagram = bytes
      case .truncated: return .failed(errno: EMSGSIZE, message: nil)
      case .nothing: return .failed(errno: ETIMEDOUT, message: nil)
      case .overrun: return .failed(errno: ENOBUFS, message: nil)
      case .failed(let code): return .failed(errno: code, message: nil)
      case .foreign:
        if ContinuousClock.now > deadline { return .failed(errno: ETIMEDOUT, message: nil) }
        continue
      }
      var messages = MessageReader(datagram)
      while let message = messages.next() {
        // Late answers to a request that was given up.
        guard message.sequence == self.sequence, message.port == self.socket.port else { continue }
        switch exchange.receive(message) {
        case .nothing: continue
        case .object(let message):
          take(message)
          if !exchange.isDump { return .complete }
        case .complete: return .complete
        case .interrupted:
          return .failed(errno: EINTR, message: "what it lists kept changing")
        case .failed(let code, let message): return .failed(errno: code, message: message)
        }
      }
      if messages.isMalformed { return .failed(errno: EBADMSG, message: nil) }
    }
  }

  private func discard() {
    while true {
      switch self.socket.receive(flags: CInt(MSG_DONTWAIT)) {
      case .nothing, .failed: return
      case .datagram, .truncated, .foreign, .overrun: continue
      }
    }
  }
}
