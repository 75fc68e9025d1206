import Glibc

/// What has come so far of requests that were sent together, each for one object: which answer is whose.
struct Batch<Object> {
  /// In the order of the requests; `nil` for those that have none yet.
  private(set) var answers: [Result<Object, NetlinkError>?]
  private let operation: String
  private let first: UInt32
  private var missing: Int

  /// - Parameter first: The first request's sequence number; those of the others follow it.
  init(_ operation: String, first: UInt32, count: Int) {
    self.operation = operation
    self.first = first
    self.missing = count
    self.answers = Array(repeating: nil, count: count)
  }

  var isComplete: Bool { self.missing == 0 }

  /// Takes any message; the answers to other requests, and second answers, are passed over.
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
    case .failed(let code, let words): answer = self.failure(code, words)
    }
    self.answers[index] = answer
    self.missing -= 1
  }

  private func failure(_ code: CInt, _ words: String? = nil) -> Result<Object, NetlinkError> {
    .failure(.answer(self.operation, code, words))
  }
}
