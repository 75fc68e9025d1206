import Glibc

/// The answers so far to a batch of requests for one object each.
struct Batch<Object> {
  /// The answers in the order of the requests; `nil` if not answered yet.
  private(set) var answers: [Result<Object, NetlinkError>?]
  private let operation: String
  private let first: UInt32
  private var missing: Int

  /// - Parameter first: The sequence number of the first request; the others follow it.
  init(_ operation: String, first: UInt32, count: Int) {
    self.operation = operation
    self.first = first
    self.missing = count
    self.answers = Array(repeating: nil, count: count)
  }

  var isComplete: Bool { self.missing == 0 }

  /// Accepts any message. Ignores answers to other requests, and second answers.
  mutating func receive(_ message: Message, read: (Message) -> Object?) {
    let index = Int(message.sequence &- self.first)
    guard index < self.answers.count, self.answers[index] == nil else { return }
    var exchange = Exchange(isDump: false)
    let answer: Result<Object, NetlinkError>
    switch exchange.receive(message) {
    case .nothing: return
    case .object(let message): answer = read(message).map(Result.success) ?? self.failure(EBADMSG)
    case .complete: answer = self.failure(EBADMSG)
    case .interrupted: answer = self.failure(EINTR)
    case .failed(let code, let reason): answer = self.failure(code, reason)
    }
    self.answers[index] = answer
    self.missing -= 1
  }

  private func failure(_ code: CInt, _ words: String? = nil) -> Result<Object, NetlinkError> {
    .failure(.answer(self.operation, code, words))
  }
}
