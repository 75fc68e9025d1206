import Connectivity
import Glibc
import LinuxSupport
import Netlink

/// One entry of a recording: an input to the monitor thread, in its order. It has bytes and times
/// instead of values of the model, which may change. So a replay exercises the parsers, too.
enum RecordedItem: Hashable {
  /// A wait has ended, and with it the previous turn.
  case turn(RecordedWake)
  /// The monotonic clock, in nanoseconds since boot.
  case now(Int64)
  /// The wall clock, in microseconds since 1970.
  case time(Int64)
  /// A socket was opened. The error is 0 on success.
  case opened(SocketRole, error: CInt, operation: String)
  case bound(SocketRole, error: CInt, port: UInt32)
  case option(SocketRole, isSocketLevel: Bool, option: CInt, error: CInt)
  /// Requests were sent in one datagram.
  case sent(SocketRole, error: CInt, [UInt8])
  case received(SocketRole, RecordedReception)
  /// Whether the listeners have something to read.
  case readable(Bool)
  case file(FileQuestion, error: CInt, [UInt8])
  /// Facts (`FactUpdate.recorded`), either because the kernel reported links or from the source
  /// itself.
  case fact(FactKind, afterLinks: Bool, [UInt8])
  /// A request of a client or the user to the thread (`RecordedInput`).
  case input([UInt8])
  /// The recording has reached its maximum size, and connd continued without it.
  case full
  /// The turn is recorded completely. Anything after the last of these is part of a turn, and a
  /// replay cannot know its result.
  case turnEnded
}

/// The reason why a wait ended.
struct RecordedWake: Hashable {
  var hasMessages: Bool
  /// The fact sources that were ready.
  var sources = SourceSet()
  /// How long the machine slept, in nanoseconds.
  var slept: Int64?
}

/// The result of reading a socket.
enum RecordedReception: Hashable {
  case datagram([UInt8])
  case truncated(size: UInt32)
  case foreign
  case nothing
  case overrun
  case failed(error: CInt)

  init(_ reception: Reception) {
    self =
      switch reception {
      case .datagram(let bytes): .datagram(Array(bytes))
      case .truncated(let size): .truncated(size: UInt32(clamping: size))
      case .foreign: .foreign
      case .nothing: .nothing
      case .overrun: .overrun
      case .failed(let code): .failed(error: code)
      }
  }
}

// MARK: - Encoding

extension RecordedItem {
  private enum Kind: UInt8 {
    case turn = 1
    case now, time, opened, bound, option, sent, received, readable, file, input, full, modems,
      metering, turnEnded, fact
  }

  var encoded: [UInt8] {
    var fields = FieldWriter()
    func begin(_ kind: Kind) { fields.put(kind.rawValue) }
    switch self {
    case .turn(let wake):
      begin(.turn)
      fields.put(wake.hasMessages)
      fields.put(wake.sources.rawValue)
      fields.put(wake.slept) { $0.put($1) }
    case .now(let nanoseconds):
      begin(.now)
      fields.put(nanoseconds)
    case .time(let microseconds):
      begin(.time)
      fields.put(microseconds)
    case .opened(let role, let error, let operation):
      begin(.opened)
      fields.put(role.rawValue)
      fields.put(error)
      fields.put(operation)
    case .bound(let role, let error, let port):
      begin(.bound)
      fields.put(role.rawValue)
      fields.put(error)
      fields.put(port)
    case .option(let role, let isSocketLevel, let option, let error):
      begin(.option)
      fields.put(role.rawValue)
      fields.put(isSocketLevel)
      fields.put(option)
      fields.put(error)
    case .sent(let role, let error, let bytes):
      begin(.sent)
      fields.put(role.rawValue)
      fields.put(error)
      fields.put(bytes)
    case .received(let role, let reception):
      begin(.received)
      fields.put(role.rawValue)
      reception.put(into: &fields)
    case .readable(let isReadable):
      begin(.readable)
      fields.put(isReadable)
    case .file(let question, let error, let bytes):
      begin(.file)
      fields.put(question.kind.rawValue)
      fields.put(question.subject)
      fields.put(error)
      fields.put(bytes)
    case .fact(let kind, let afterLinks, let bytes):
      begin(.fact)
      fields.put(kind.rawValue)
      fields.put(afterLinks)
      fields.put(bytes)
    case .input(let bytes):
      begin(.input)
      fields.put(bytes)
    case .full: begin(.full)
    case .turnEnded: begin(.turnEnded)
    }
    return fields.bytes
  }

  init(decoding bytes: [UInt8]) throws(FieldReader.Fault) {
    var fields = FieldReader(bytes)
    switch try fields.choice(Kind.self) {
    case .turn:
      self = .turn(
        RecordedWake(
          hasMessages: try fields.flag(), sources: SourceSet(rawValue: try fields.number()),
          slept: try fields.optional { (fields) throws(FieldReader.Fault) in
            try fields.number()
          }))
    case .now: self = .now(try fields.number())
    case .time: self = .time(try fields.number())
    case .opened:
      self = .opened(
        try fields.choice(), error: try fields.number(), operation: try fields.text())
    case .bound:
      self = .bound(try fields.choice(), error: try fields.number(), port: try fields.number())
    case .option:
      self = .option(
        try fields.choice(), isSocketLevel: try fields.flag(), option: try fields.number(),
        error: try fields.number())
    case .sent:
      self = .sent(try fields.choice(), error: try fields.number(), try fields.bytes())
    case .received: self = .received(try fields.choice(), try RecordedReception(from: &fields))
    case .readable: self = .readable(try fields.flag())
    case .file:
      self = .file(
        FileQuestion(try fields.choice(), try fields.text()), error: try fields.number(),
        try fields.bytes())
    case .fact:
      self = .fact(try fields.choice(), afterLinks: try fields.flag(), try fields.bytes())
    // Earlier versions had a tag for each kind.
    case .modems: self = .fact(.modems, afterLinks: try fields.flag(), try fields.bytes())
    case .metering: self = .fact(.metering, afterLinks: false, try fields.bytes())
    case .input: self = .input(try fields.bytes())
    case .full: self = .full
    case .turnEnded: self = .turnEnded
    }
    guard fields.isAtEnd else { throw FieldReader.Fault() }
  }
}

extension RecordedReception {
  private enum Kind: UInt8 {
    case datagram = 1
    case truncated, foreign, nothing, overrun, failed
  }

  fileprivate func put(into fields: inout FieldWriter) {
    switch self {
    case .datagram(let bytes):
      fields.put(Kind.datagram.rawValue)
      fields.put(bytes)
    case .truncated(let size):
      fields.put(Kind.truncated.rawValue)
      fields.put(size)
    case .foreign: fields.put(Kind.foreign.rawValue)
    case .nothing: fields.put(Kind.nothing.rawValue)
    case .overrun: fields.put(Kind.overrun.rawValue)
    case .failed(let error):
      fields.put(Kind.failed.rawValue)
      fields.put(error)
    }
  }

  fileprivate init(from fields: inout FieldReader) throws(FieldReader.Fault) {
    switch try fields.choice(Kind.self) {
    case .datagram: self = .datagram(try fields.bytes())
    case .truncated: self = .truncated(size: try fields.number())
    case .foreign: self = .foreign
    case .nothing: self = .nothing
    case .overrun: self = .overrun
    case .failed: self = .failed(error: try fields.number())
    }
  }
}
