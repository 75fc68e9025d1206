import Connectivity
import Glibc
import LinuxSupport
import Netlink

// The interfaces of the monitor thread in a replay. They open nothing and never block.

/// A netlink socket of a recording.
final class ReplayedSocket: DatagramSocket {
  private let tape: RecordingCursor
  private let role: SocketRole
  /// The answers to the requests that were sent last.
  private var answers: ArraySlice<NetlinkAnswer> = []
  /// The datagram that was read last.
  private var datagram = UnsafeMutableRawBufferPointer(start: nil, count: 0)
  private(set) var port: UInt32 = 0

  let fileDescriptor: CInt = -1

  init(_ tape: RecordingCursor, _ role: SocketRole) {
    self.tape = tape
    self.role = role
  }

  deinit { self.datagram.deallocate() }

  func bind() throws(NetlinkError) { self.port = try self.tape.bind(self.role) }

  func set(_ option: CInt, _ value: CInt) -> Bool { self.set(option, isSocketLevel: false) }

  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool {
    self.set(option, isSocketLevel: true)
  }

  private func set(_ option: CInt, isSocketLevel: Bool) -> Bool {
    let code = self.tape.set(.init(role: self.role, isSocketLevel: isSocketLevel, option: option))
    if code != 0 { errno = code }
    return code == 0
  }

  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    var answers: [NetlinkAnswer] = []
    var failure: NetlinkError?
    for request in NetlinkMessage.messages(of: messages) {
      for answer in self.tape.answer(request, self.role, operation: operation) {
        switch answer {
        case .datagram(let bytes):
          let messages = NetlinkMessage.messages(of: bytes).flatMap { recorded in
            var message = recorded
            (message.sequence, message.port) = (request.sequence, self.port)
            return message.padded
          }
          answers.append(.datagram(messages))
        case .failed: answers.append(answer)
        case .unsent(let error): failure = NetlinkError(operation: operation, code: error)
        }
      }
    }
    // Each request of the datagram has the recorded failure, and all of them must be consumed.
    if let failure { throw failure }
    self.answers = answers[...]
  }

  func receive(flags: CInt) -> Reception {
    let reception: RecordedReception
    switch self.role {
    case .listener, .wirelessListener: reception = self.tape.hear(self.role)
    case .requester, .wirelessRequester, .socketDiagnosis, .linkDump:
      switch self.answers.popFirst() {
      case .datagram(let bytes)?: reception = .datagram(bytes)
      case .failed(let failure)?: reception = failure
      case .unsent?, nil: reception = .nothing
      }
    }
    switch reception {
    case .datagram(let bytes): return .datagram(self.keep(bytes))
    case .truncated(let size): return .truncated(size: Int(size))
    case .foreign: return .foreign
    case .nothing: return .nothing
    case .overrun: return .overrun
    case .failed(let code): return .failed(errno: code)
    }
  }

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    guard !self.answers.isEmpty else { return false }
    var isWell = true
    while case .datagram(let bytes)? = self.answers.popFirst() {
      isWell = take(self.keep(bytes)) && isWell
    }
    return isWell
  }

  private func keep(_ bytes: [UInt8]) -> UnsafeRawBufferPointer {
    self.datagram.deallocate()
    self.datagram = .allocate(byteCount: bytes.count, alignment: 8)
    self.datagram.copyBytes(from: bytes)
    return UnsafeRawBufferPointer(self.datagram)
  }
}

struct ReplayedSockets: SocketSource {
  let tape: RecordingCursor

  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    try self.tape.open(role)
    return ReplayedSocket(self.tape, role)
  }

  func isReadable(_ fileDescriptor: CInt) -> Bool { self.tape.isReadable }
}

struct ReplayedFiles: FileReader {
  let tape: RecordingCursor

  func answer(_ question: FileQuestion) -> FileAnswer { self.tape.answer(question) }
}

struct ReplayedClock: MonitorClock {
  let tape: RecordingCursor

  var now: Instant { self.tape.now }
  var time: WallTime { self.tape.time }
  var worked: Duration { self.tape.worked }
}

/// The facts of a recording.
struct ReplayedFacts: FactSource {
  let tape: RecordingCursor

  let descriptors: [pollfd] = []
  /// Zero while there are recorded facts, because nothing else was recorded about their source.
  var timeout: Duration? { self.tape.hasFacts ? .zero : nil }

  func process() -> [FactUpdate] { self.tape.takeFacts(afterLinks: false) }
  func noteLinks() -> [FactUpdate] { self.tape.takeFacts(afterLinks: true) }
}

/// The DNS files of a recording.
struct ReplayedDNS: FactSource {
  let files: DNSFiles
  let descriptors: [pollfd] = []
  let timeout: Duration? = nil

  func process() -> [FactUpdate] { self.files.read().map { [.dns($0)] } ?? [] }
}
