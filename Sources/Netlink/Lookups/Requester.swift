import CLinux
import Glibc

/// The socket that queries the kernel and waits for its answer.
///
/// A query that is not answered within the timeout fails with ETIMEDOUT. The timeout limits only
/// the wait for the answer. The kernel works on a request inside sendto(2). If another process
/// holds the RTNL mutex for long, the call blocks as long. No timeout ends this wait, but connd's
/// watchdog detects it.
///
/// Not thread-safe: one thread owns it. The descriptor is closed on exec.
package final class Requester {
  let socket: any DatagramSocket
  private var sequence: UInt32
  private let timeout: Duration
  /// The earliest expiry of the returned answers.
  var expiry = Expiry()
  var knownLinks = KnownLinks()
  /// Whether the next datagram begins with the request that waits for changes.
  private var waitsForChanges = false

  /// The maximum number of attempts to read a dump. An attempt fails if the listed objects change
  /// meanwhile, or if another dump keeps the socket busy.
  private static let attempts = 5

  /// The number of requests in one datagram. Their answers fit into a socket's buffer.
  private static let batch = NetlinkSocket.maxSmallDatagrams

  /// Opens the socket.
  ///
  /// - Parameter timeout: How long to wait for each part of an answer.
  package convenience init(timeout: Duration = .seconds(2)) throws(NetlinkError) {
    try self.init(NETLINK_ROUTE, timeout: timeout)
  }

  /// - Parameter protocol: `NETLINK_ROUTE` or `NETLINK_GENERIC`.
  convenience init(_ protocol: CInt, timeout: Duration = .seconds(2)) throws(NetlinkError) {
    try self.init(on: NetlinkSocket(`protocol`, nonBlocking: false), timeout: timeout)
  }

  /// Queries on a socket that was opened for this purpose.
  package init(
    on socket: any DatagramSocket, timeout: Duration = .seconds(2)
  ) throws(NetlinkError) {
    // Without these options (before 4.20) the kernel ignores filters and explains no errors. The
    // code handles both cases.
    for option in [NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK] {
      _ = socket.set(option)
    }
    let (seconds, attoseconds) = timeout.components
    let time = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
    guard socket.setSocket(SO_RCVTIMEO, time) else { throw .last("set a timeout") }
    try socket.bind()
    self.socket = socket
    self.timeout = timeout
    // An earlier socket may have used the same port. Its late answers must not match new requests.
    self.sequence = UInt32(truncatingIfNeeded: Glibc.time(nil))
  }

  /// Makes the next query wait until the kernel has completed every change that it has announced.
  ///
  /// The kernel sends three kinds of messages before it removes routes, and none afterwards:
  /// `RTM_DELROUTE` in IPv4 (`fib_table_delete`), `RTM_DELADDR` (`__inet_del_ifa`), and
  /// `RTM_NEWLINK` of a link that is set down (`__dev_notify_flags`). The kernel holds the RTNL
  /// mutex until the change is complete. A route lookup does not take that mutex. A request for a
  /// link does, even if the link does not exist. That request precedes the query in the same
  /// datagram, so it costs no extra exchange.
  package func waitForChanges() { self.waitsForChanges = true }

  /// Returns the answer to a request for one object, or `nil` if the object does not exist
  /// (`absences`).
  func object<Object>(
    _ request: consuming Request, absentIf absences: [CInt] = [],
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
      guard let object else { throw NetlinkError.answer(operation, EBADMSG) }
      return object
    } catch {
      guard error.isAnswer, absences.contains(error.code) else { throw error }
      return nil
    }
  }

  /// Returns the objects of a dump for which `read` returns a value.
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

  /// Makes a request that the kernel confirms without an object.
  func command(_ request: consuming Request) throws(NetlinkError) {
    try self.perform(request, take: { _ in }, restart: {})
  }

  /// Returns the answers to requests for one object each, at a lower cost than one by one. An error
  /// concerns only its own request. An answer is `nil` if it was lost or late, and must be
  /// requested again.
  func answers<Subject, Object>(
    for subjects: [Subject], request: (Subject) -> Request, read: (Message) -> Object?
  ) throws(NetlinkError) -> [Result<Object, NetlinkError>?] {
    var answers: [Result<Object, NetlinkError>?] = []
    var start = 0
    while start < subjects.count {
      let end = min(start + Self.batch, subjects.count)
      answers += try self.batch(subjects[start..<end], request, read)
      start = end
    }
    return answers
  }

  /// Sends requests in one datagram. The kernel answers each with one datagram, in order.
  private func batch<Subject, Object>(
    _ subjects: ArraySlice<Subject>, _ request: (Subject) -> Request, _ read: (Message) -> Object?
  ) throws(NetlinkError) -> [Result<Object, NetlinkError>?] {
    let (first, port) = (self.sequence &+ 1, self.socket.port)
    var operation = ""
    var bytes: [UInt8] = []
    for subject in subjects {
      var request = request(subject)
      operation = request.operation
      self.sequence &+= 1
      bytes += request.bytes(sequence: self.sequence)
    }
    try self.send(bytes, operation)
    var batch = Batch<Object>(operation, first: first, count: subjects.count)
    let deadline = ContinuousClock.now + self.timeout
    var isWell = true
    while isWell, !batch.isComplete, ContinuousClock.now < deadline {
      isWell = self.socket.receiveSmall { datagram in
        var messages = MessageReader(datagram)
        while let message = messages.next() {
          if message.port == port { batch.receive(message, read: read) }
        }
        return !messages.isMalformed
      }
    }
    if !batch.isComplete { self.discard() }
    return batch.answers.map { answer in
      if case .failure(let error)? = answer, Self.isTransient(error) { nil } else { answer }
    }
  }

  private func send(_ requests: [UInt8], _ operation: String) throws(NetlinkError) {
    var datagram = requests
    if self.waitsForChanges {
      var wait = Self.wait
      // The answer is an error. It is skipped, because no query has this sequence number.
      datagram.insert(contentsOf: wait.bytes(sequence: 0), at: 0)
    }
    let result = datagram.withUnsafeBytes { bytes in
      Result { () throws(NetlinkError) in try self.socket.send(bytes, operation: operation) }
    }
    try result.get()
    self.waitsForChanges = false
  }

  /// Sends a request and calls `take` with each object of the answer. If the request must be
  /// repeated, calls `restart` first, so that the caller discards the objects so far.
  private func perform(
    _ request: consuming Request, take: (Message) -> Void, restart: () -> Void
  ) throws(NetlinkError) {
    var request = request
    var failure = NetlinkError(operation: request.operation, code: EINTR)
    for _ in 0..<Self.attempts {
      var exchange = try self.begin(&request)
      switch self.answer(&exchange, request.operation, take) {
      case .complete:
        return
      case .failed(let error):
        failure = error
        guard Self.isTransient(error) else { throw failure }
      }
      restart()
      // An older dump that was not read to its end keeps the socket busy.
      self.discard()
    }
    throw failure
  }

  /// Sends a request. The caller must read the answer.
  func begin(_ request: inout Request) throws(NetlinkError) -> Exchange {
    self.sequence &+= 1
    let bytes = request.bytes(sequence: self.sequence)
    if self.waitsForChanges {
      try self.send(Array(bytes), request.operation)
    } else {
      try self.socket.send(bytes, operation: request.operation)
    }
    return Exchange(isDump: request.isDump)
  }

  enum Outcome {
    case complete
    case failed(NetlinkError)
  }

  /// Whether the request may succeed if it is sent again. EMSGSIZE from the kernel is permanent:
  /// the answer is larger than the kernel can create. EMSGSIZE from the socket is transient: the
  /// buffer has grown.
  static func isTransient(_ error: NetlinkError) -> Bool {
    switch error.code {
    case EINTR, EBUSY, ENOBUFS: true
    case EMSGSIZE: !error.isAnswer
    default: false
    }
  }

  /// Reads until the exchange is complete.
  private func answer(
    _ exchange: inout Exchange, _ operation: String, _ take: (Message) -> Void
  ) -> Outcome {
    while true {
      if let outcome = self.readPart(of: &exchange, operation, take) { return outcome }
    }
  }

  /// Reads one datagram.
  ///
  /// - Returns: How the exchange ended, or `nil` if more is to come. EINTR means an interrupted
  ///   dump, EMSGSIZE a lost datagram.
  func readPart(
    of exchange: inout Exchange, _ operation: String, _ take: (Message) -> Void
  ) -> Outcome? {
    let datagram: UnsafeRawBufferPointer
    switch self.datagram() {
    case .bytes(let bytes): datagram = bytes
    case .failed(let code): return .failed(NetlinkError(operation: operation, code: code))
    }
    var messages = MessageReader(datagram)
    while let message = messages.next() {
      // Skip late answers to an abandoned request.
      guard message.sequence == self.sequence, message.port == self.socket.port else { continue }
      switch exchange.receive(message) {
      case .nothing: continue
      case .object(let message):
        take(message)
        if !exchange.isDump { return .complete }
      case .complete: return .complete
      case .interrupted:
        return .failed(.answer(operation, EINTR, "what it lists kept changing"))
      case .failed(let code, let message): return .failed(.answer(operation, code, message))
      }
    }
    return messages.isMalformed ? .failed(.answer(operation, EBADMSG)) : nil
  }

  private enum Reading {
    case bytes(UnsafeRawBufferPointer)
    case failed(errno: CInt)
  }

  /// Waits for the next datagram from the kernel.
  private func datagram() -> Reading {
    let deadline = ContinuousClock.now + self.timeout
    while true {
      switch self.socket.receive() {
      case .datagram(let bytes): return .bytes(bytes)
      case .truncated: return .failed(errno: EMSGSIZE)
      case .nothing: return .failed(errno: ETIMEDOUT)
      case .overrun: return .failed(errno: ENOBUFS)
      case .failed(let code): return .failed(errno: code)
      case .foreign: if ContinuousClock.now > deadline { return .failed(errno: ETIMEDOUT) }
      }
    }
  }

  func discard() {
    while true {
      switch self.socket.receive(flags: CInt(MSG_DONTWAIT)) {
      case .nothing, .failed: return
      case .datagram, .truncated, .foreign, .overrun: continue
      }
    }
  }
}
