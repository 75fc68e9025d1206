import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol

extension MonitorLoop {
  /// Returns the answers to clients at the end of a replay, for connctl to print.
  ///
  /// - Parameter unanswered: The number of queries so far that the recording does not contain.
  func answers(_ store: Store, unanswered: () -> Int) -> [UInt8] {
    var answers = Connectivity_V1_ReplayedAnswers()
    answers.status = Connectivity_V1_Status(
      store.snapshot, networkNamespace: ProcessNamespace.reported)
    answers.endTime = Google_Protobuf_Timestamp(self.clock.time)
    for published in store.past where published.change.isInHistory {
      answers.history.append(Connectivity_V1_ListTransitionsResponse(published.change))
    }
    func ask<Answer>(
      _ query: (KernelQueries) throws(KernelUnavailable) -> Answer
    ) -> Answer? {
      let before = unanswered()
      let answer = try? self.ask(query).get()
      return unanswered() == before ? answer : nil
    }
    let links = ask { queries throws(KernelUnavailable) in
      var listing = try LinkListing(queries)
      while true { if let links = try listing.advance(queries) { return links } }
    }
    answers.links = (links ?? []).map { Connectivity_V1_Link($0) }
    // Older recordings lack the answers for a comparison with the other links.
    let explanation =
      ask { queries throws(KernelUnavailable) in
        try queries.explain(nil, comparedWith: links?.comparable ?? [])
      } ?? ask { queries throws(KernelUnavailable) in try queries.explain(nil) }
    if let explanation {
      answers.explanation = Connectivity_V1_Explanation(explanation, links: links ?? [])
    }
    return answers.serializedBytes()
  }
}

extension Connectivity_V1_ListTransitionsResponse {
  fileprivate mutating func append(_ other: Self) {
    self.transitions += other.transitions
    self.invalidations += other.invalidations
    self.paths += other.paths
  }
}
