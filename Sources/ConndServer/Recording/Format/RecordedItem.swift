import LinuxSupport
import Netlink

// The messages of recording.proto.
typealias RecordedItem = Connd_Recording_V2_Item
typealias RecordedWake = Connd_Recording_V2_Wake
typealias RecordedRole = Connd_Recording_V2_Socket
typealias RecordedFacts = Connd_Recording_V2_Facts
typealias RecordedInput = Connd_Recording_V2_Input

extension RecordedItem {
  init(_ kind: OneOf_Kind) {
    self.init()
    self.kind = kind
  }

  static var endOfTurn: RecordedItem { RecordedItem(.turnEnded(true)) }

  var endsTurn: Bool { if case .turnEnded? = self.kind { true } else { false } }

  /// Whether the kind is known and all numbers are in range, so that calculations cannot overflow.
  var isPossible: Bool {
    switch self.kind {
    // The limits are 146 years and the year 9999.
    case .now(let nanoseconds)?, .worked(let nanoseconds)?:
      (0...(.max / 2)).contains(nanoseconds)
    case .time(let microseconds)?: (0...253_402_300_799_999_999).contains(microseconds)
    case .turn(let wake)?: (0...(.max / 2)).contains(wake.slept) && wake.sources <= UInt8.max
    case nil: false
    default: true
    }
  }
}

extension RecordedRole {
  init(_ role: SocketRole) { self.init(rawValue: Int(role.rawValue)) }

  /// The role, or `nil` if it is unknown.
  var role: SocketRole? { UInt8(exactly: self.rawValue).flatMap(SocketRole.init) }
}

extension Connd_Recording_V2_File {
  init(_ question: FileQuestion, _ answer: FileAnswer) {
    self.init()
    (self.kind, self.subject) = (UInt32(question.kind.rawValue), question.subject)
    switch answer {
    case .success(let bytes): self.contents = bytes
    case .failure(let error): self.error = error.code
    }
  }

  /// The query, or `nil` if its kind is unknown.
  var question: FileQuestion? {
    UInt8(exactly: self.kind).flatMap(FileQuestion.Kind.init).map {
      FileQuestion($0, self.subject)
    }
  }

  var answer: FileAnswer {
    self.error == 0 ? .success(self.contents) : .failure(SystemError(self.error))
  }
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

  /// Returns `nil` if the kind is unknown.
  init?(_ message: Connd_Recording_V2_Reception) {
    switch message.kind {
    case .datagram(let bytes)?: self = .datagram(bytes)
    case .truncated(let size)?: self = .truncated(size: size)
    case .foreign?: self = .foreign
    case .nothing?: self = .nothing
    case .overrun?: self = .overrun
    case .failed(let error)?: self = .failed(error: error)
    case nil: return nil
    }
  }

  func message(on role: SocketRole) -> Connd_Recording_V2_Reception {
    .with {
      $0.socket = RecordedRole(role)
      $0.kind =
        switch self {
        case .datagram(let bytes): .datagram(bytes)
        case .truncated(let size): .truncated(size)
        case .foreign: .foreign(true)
        case .nothing: .nothing(true)
        case .overrun: .overrun(true)
        case .failed(let error): .failed(error)
        }
    }
  }
}
