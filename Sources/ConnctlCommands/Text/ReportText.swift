import Connectivity
import ConnectivityProtocol

extension Style {
  /// The style of a report: long lines without colour, and times in UTC.
  static let report = Style(width: .max) { time in
    let parts = time.description.split(separator: "T")
    return LocalTime(
      date: parts.first.map(String.init) ?? "", time: String(parts.last?.prefix(12) ?? ""))
  }

  /// Returns the sections of a report for people: status, explanation, links, diagnosis and
  /// history.
  ///
  /// - Parameters:
  ///   - start: The state in which the recording began, or `nil` if that is unknown.
  ///   - diagnosis: The answer of the running connd, or `nil` if it was not asked.
  func answers(
    _ answers: Connectivity_V1_ReplayedAnswers, _ start: StartingState?,
    _ diagnosis: Connectivity_V1_Diagnosis? = nil
  ) throws -> [String] {
    let snapshot = try ConnectivitySnapshot(answers.status)
    let history = FoldedChange.groups(try answers.history.withoutUserNames.changes())
    let missing = ["not available: the recording lacks answers from the kernel"]
    let explanation =
      try answers.hasExplanation ? self.explanation(answers.explanation, host: nil) : missing
    let why = try diagnosis.map { try self.diagnosis($0, isAnonymous: true) }
    let sections = [
      ("status", self.status(snapshot, now: try WallTime(answers.endTime))),
      ("explain", explanation),
      ("links", answers.links.isEmpty ? missing : self.links(answers.links)),
      ("why", why ?? ["not available: the running connd was not asked"]),
      ("history (UTC)", history.isEmpty ? ["no changes"] : history.flatMap(self.history)),
    ]
    return (start.map { $0.text + [""] } ?? [])
      + sections.flatMap { title, lines in ["--- \(title)"] + lines + [""] }
  }
}

extension Connectivity_V1_ListTransitionsResponse {
  /// The history with `user 1000` instead of `uid 1000`, which would be shown as the user's name.
  fileprivate var withoutUserNames: Self {
    var response = self
    for place in response.paths.indices {
      let message = response.paths[place].cause.message
      guard message.hasPrefix("uid ") else { continue }
      response.paths[place].cause.message = "user " + message.dropFirst(4)
    }
    return response
  }
}

extension [UInt8] {
  /// Returns a report with these lines before its first section.
  func inserting(_ lines: [String]) -> [UInt8] {
    let start = Array("\n--- ".utf8)
    var place = 0
    while place < self.count, !self[place...].starts(with: start) { place += 1 }
    let text = Array(lines.map { $0 + "\n" }.joined().utf8)
    guard place < self.count else { return self }
    return self[...place] + text + self[(place + 1)...]
  }
}
