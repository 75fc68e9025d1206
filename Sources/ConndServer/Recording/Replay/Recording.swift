import LinuxSupport
import Netlink

/// The contents of a recording, arranged for a replay.
struct Recording {
  var header: RecordingHeader
  /// The first turn is the start. Each later turn is a wait and its consequences. Empty if even the
  /// start is incomplete.
  var turns: [Turn] = [Turn()]
  var answers = Answers()
  /// Why the file ends early or is invalid, or `nil` if it is complete.
  var end: End?

  /// The inputs of a turn that are consumed in order.
  struct Turn {
    var wake: RecordedWake?
    var instants: [Int64] = []
    var times: [Int64] = []
    var work: [Int64] = []
    var heard: [SocketRole: [RecordedReception]] = [:]
    var polls: [Bool] = []
    var inputs: [RecordedInput] = []
    /// The facts that sources returned from `process()`, and those returned from `noteLinks()`.
    var facts: [FactUpdate] = []
    var factsAfterLinks: [FactUpdate] = []
  }

  /// The recorded answers by query.
  struct Answers {
    var requests = AnswerTable<NetlinkQuestion, [NetlinkAnswer]>()
    var files = AnswerTable<FileQuestion, FileAnswer>()
    var openings = AnswerTable<SocketRole, NetlinkError?>()
    /// The results are a port or an errno.
    var bindings = AnswerTable<SocketRole, Result<UInt32, SystemError>>()
    var options = AnswerTable<SocketOption, CInt>()
  }

  struct SocketOption: Hashable {
    var role: SocketRole
    var isSocketLevel: Bool
    var option: CInt
  }

  enum End: Hashable {
    /// The file ends with a partial record, because it was cut off or connd was killed.
    case torn(offset: Int)
    /// The file ends within a turn.
    case unfinished
    case damaged(offset: Int)
    /// The recording had reached its maximum size.
    case full
  }
}

/// The reason why a recording cannot be replayed at all.
struct RecordingError: Error, CustomStringConvertible {
  var description: String
}

/// Recorded answers by query. A query receives the answers that the same query received in the same
/// turn, in order. If a replay asks more often or in another turn, it receives the last earlier
/// answer, or else the first later answer.
struct AnswerTable<Question: Hashable, Answer> {
  private var recorded: [Question: [(turn: Int, answer: Answer)]] = [:]
  private var places: [Question: Int] = [:]

  /// - Parameter turn: Not earlier than the turn of the previous call.
  mutating func append(_ answer: Answer, to question: Question, in turn: Int) {
    self.recorded[question, default: []].append((turn, answer))
  }

  /// Returns the answer, or `nil` if the query was never recorded.
  mutating func answer(_ question: Question, in turn: Int) -> Answer? {
    guard let recorded = self.recorded[question] else { return nil }
    var place = self.places[question] ?? 0
    while place < recorded.count, recorded[place].turn < turn { place += 1 }
    let isThere = place < recorded.count && recorded[place].turn == turn
    self.places[question] = isThere ? place + 1 : place
    if isThere || place == 0 { return recorded[place].answer }
    return recorded[place - 1].answer
  }
}

// MARK: - Reading

extension Recording {
  /// Reads the bytes of a file.
  ///
  /// - Throws: If the bytes are not a recording, or have another version.
  init(_ bytes: [UInt8]) throws(RecordingError) { self.init(try RecordingFile(bytes)) }

  init(_ file: RecordingFile) {
    (self.header, self.end) = (file.header, file.end)
    if file.items.isEmpty { self.turns = [] }
    var exchanges = Exchanges()
    for item in file.items { self.take(item, &exchanges) }
    exchanges.finish(&self.answers)
  }

  private var turn: Int { self.turns.count - 1 }

  /// Adds an item, unless it is invalid.
  private mutating func take(_ item: RecordedItem, _ exchanges: inout Exchanges) {
    switch item.kind {
    case .turn(let wake)?: self.turns.append(Turn(wake: wake))
    case .now(let nanoseconds)?: self.turns[self.turn].instants.append(nanoseconds)
    case .time(let microseconds)?: self.turns[self.turn].times.append(microseconds)
    case .worked(let nanoseconds)?: self.turns[self.turn].work.append(nanoseconds)
    case .opened(let opening)?:
      guard let role = opening.socket.role else { return }
      let failure =
        opening.error == 0
        ? nil : NetlinkError(operation: opening.operation, code: opening.error)
      self.answers.openings.append(failure, to: role, in: self.turn)
    case .bound(let binding)?:
      guard let role = binding.socket.role else { return }
      exchanges.ports[role] = binding.port
      self.answers.bindings.append(
        binding.error == 0 ? .success(binding.port) : .failure(SystemError(binding.error)),
        to: role, in: self.turn)
    case .option(let option)?:
      guard let role = option.socket.role else { return }
      self.answers.options.append(
        option.error,
        to: SocketOption(
          role: role, isSocketLevel: option.isSocketLevel, option: option.option),
        in: self.turn)
    case .sent(let sending)?:
      guard let role = sending.socket.role else { return }
      exchanges.begin(role, sending.datagram, sending.error, in: self.turn, &self.answers)
    case .received(let message)?:
      guard let role = message.socket.role, let reception = RecordedReception(message) else {
        return
      }
      switch role {
      case .listener, .wirelessListener:
        self.turns[self.turn].heard[role, default: []].append(reception)
      case .requester, .wirelessRequester, .socketDiagnosis, .linkDump:
        exchanges.receive(role, reception)
      }
    case .readable(let isReadable)?: self.turns[self.turn].polls.append(isReadable)
    case .file(let file)?:
      guard let question = file.question else { return }
      self.answers.files.append(file.answer, to: question, in: self.turn)
    case .facts(let facts)?:
      guard let update = facts.update else { return }
      if facts.afterLinks {
        self.turns[self.turn].factsAfterLinks.append(update)
      } else {
        self.turns[self.turn].facts.append(update)
      }
    case .input(let input)?: self.turns[self.turn].inputs.append(input)
    case .full?, .turnEnded?, nil: break
    }
  }
}
