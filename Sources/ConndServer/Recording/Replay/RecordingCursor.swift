import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Netlink

/// The position in a recording during a replay.
///
/// Answers are looked up by query, regardless of the query's position in the turn. Other inputs are
/// consumed in order. So even if connd now makes more, fewer or other queries, it gets answers as
/// far as possible. At the next turn, replay and recorded run are at the same position again. Not
/// thread-safe.
final class RecordingCursor {
  private let turns: [Recording.Turn]
  private var answers: Recording.Answers
  private let complain: (String) -> Void

  /// The number of the turn. 0 is the start.
  private(set) var turn = 0
  private var present: Recording.Turn
  private var instants = 0
  private var times = 0
  private var work = 0
  private var polls = 0
  /// How many of the turn's datagrams have been received, by socket.
  private var heard: [SocketRole: Int] = [:]
  private var lastInstant = Instant(sinceStart: .zero)
  private var lastWork = Duration.zero
  /// The last recorded time, and its instant.
  private var lastTime = (time: WallTime(microseconds: 0), instant: Instant(sinceStart: .zero))

  /// - Parameter complain: Receives a message for each query without an answer.
  init(_ recording: Recording, complain: @escaping (String) -> Void) {
    self.turns = recording.turns
    self.answers = recording.answers
    self.complain = complain
    self.present = recording.turns.first ?? Recording.Turn()
  }

  /// Begins the next turn, and returns what ended the wait before it, or `nil` if there are no more
  /// turns.
  func advance() -> RecordedWake? {
    guard self.turn + 1 < self.turns.count, let wake = self.turns[self.turn + 1].wake else {
      return nil
    }
    var next = self.turns[self.turn + 1]
    for (role, receptions) in self.present.heard {
      // Unread datagrams remain for the next turn. The end of the data applies only to the turn in
      // which it was recorded.
      let unheard = receptions.dropFirst(self.heard[role] ?? 0).filter { $0 != .nothing }
      if !unheard.isEmpty { next.heard[role] = unheard + (next.heard[role] ?? []) }
    }
    self.turn += 1
    self.present = next
    (self.instants, self.times, self.work, self.polls, self.heard) = (0, 0, 0, 0, [:])
    return wake
  }

  /// The requests to the monitor thread in this turn.
  var inputs: [RecordedInput] { self.present.inputs }

  // MARK: - Facts

  /// Whether the turn has unread facts that a source returned from `process()`.
  var hasFacts: Bool { !self.present.facts.isEmpty }

  /// Returns the facts of this turn that have not been returned.
  func takeFacts(afterLinks: Bool) -> [FactUpdate] {
    let facts = afterLinks ? self.present.factsAfterLinks : self.present.facts
    if afterLinks { self.present.factsAfterLinks = [] } else { self.present.facts = [] }
    return facts
  }

  // MARK: - Consumed in order

  var now: Instant {
    if self.instants < self.present.instants.count {
      let now = Duration.nanoseconds(self.present.instants[self.instants])
      self.instants += 1
      // Even a damaged recording must not let the clock go back.
      self.lastInstant = max(self.lastInstant, Instant(sinceStart: now))
    }
    return self.lastInstant
  }

  var time: WallTime {
    if self.times < self.present.times.count {
      let time = WallTime(microseconds: self.present.times[self.times])
      // If no instant of this turn has been read, the first instant is the nearest.
      let first = self.instants == 0 ? self.present.instants.first : nil
      let next = first.map { Instant(sinceStart: .nanoseconds($0)) }
      self.lastTime = (time, max(self.lastInstant, next ?? self.lastInstant))
      self.times += 1
    }
    // Between recorded times, the wall clock advances with the boot clock. If it did not, connd
    // would believe that it had been set back.
    return self.lastTime.time.advanced(by: self.lastTime.instant.duration(to: self.lastInstant))
  }

  /// The processor time of the thread. Does not advance if it is read more often than recorded.
  var worked: Duration {
    if self.work < self.present.work.count {
      self.lastWork = max(self.lastWork, .nanoseconds(self.present.work[self.work]))
      self.work += 1
    }
    return self.lastWork
  }

  var isReadable: Bool {
    defer { self.polls += 1 }
    return self.polls < self.present.polls.count && self.present.polls[self.polls]
  }

  func hear(_ role: SocketRole) -> RecordedReception {
    let place = self.heard[role] ?? 0
    guard let receptions = self.present.heard[role], place < receptions.count else {
      return .nothing
    }
    self.heard[role] = place + 1
    return receptions[place]
  }

  // MARK: - Answers to queries

  func answer(_ request: NetlinkMessage, _ role: SocketRole, operation: String) -> [NetlinkAnswer] {
    if let answer = self.answers.requests.answer(request.question(role), in: self.turn) {
      return answer
    }
    // Some of the fixtures were recorded before `waitForChanges` existed.
    if !request.waitsForChanges {
      self.complain(
        "turn \(self.turn): \(operation) has no recorded answer: \(hexadecimal(request.bytes))")
    }
    return [.datagram(request.notThere(role).bytes)]
  }

  func answer(_ question: FileQuestion) -> FileAnswer {
    if let answer = self.answers.files.answer(question, in: self.turn) { return answer }
    self.complain(
      "turn \(self.turn): \(question.subject) has no recorded contents (\(question.kind))")
    return .failure(SystemError(ENOENT))
  }

  func open(_ role: SocketRole) throws(NetlinkError) {
    if let failure = self.answers.openings.answer(role, in: self.turn) ?? nil { throw failure }
  }

  func bind(_ role: SocketRole) throws(NetlinkError) -> UInt32 {
    switch self.answers.bindings.answer(role, in: self.turn) {
    case .success(let port)?: return port
    case .failure(let error)?:
      throw NetlinkError(operation: "bind a netlink socket", code: error.code)
    case nil: return 1
    }
  }

  /// Returns the errno of setting an option, or 0.
  func set(_ option: Recording.SocketOption) -> CInt {
    self.answers.options.answer(option, in: self.turn) ?? 0
  }
}

/// Returns all bytes in hexadecimal, because a request is short.
private func hexadecimal(_ bytes: [UInt8]) -> String {
  bytes.map { (byte: UInt8) -> String in
    let digits = String(byte, radix: 16)
    return byte < 16 ? "0\(digits)" : digits
  }.joined()
}
