/// The lookups of one attempt to connect (C5): a value that receives inputs and returns actions.
///
/// A lookup uses the network and the DNS servers that exist when it starts. After a change, the
/// lookup may wait for servers that no longer answer, so another one starts beside it. The first
/// answer is used. A failure counts only if the lookup started after the last change. After a
/// change, a failure is withheld for a moment, because network managers change routes first and the
/// DNS servers a little later. The resolver's file may be empty in between.
struct LookupMachine<Answer: Sendable>: Sendable {
  typealias LookupID = Int

  enum Input: Sendable {
    /// Start the search. Changes that may improve lookups are monitored from now on. If
    /// `isSettling`, the network changed a moment ago, and ``settled`` follows.
    case begin(isSettling: Bool)
    /// A path became satisfied, or the DNS servers changed.
    case changed
    case ended(LookupID, Result<Answer, any Error>)
    /// A moment has passed since the last ``Action/settle``.
    case settled
    /// The channel is shut down, or the time is up.
    case giveUp(any Error)
  }

  enum Action: Sendable {
    case start(LookupID)
    /// Send ``Input/settled`` in a moment. If it is already pending, start the wait again.
    case settle
    /// Happens once. Lookups that are still running are cancelled.
    case finish(Result<Answer, any Error>)
  }

  private enum State {
    case new
    case searching
    case finished
  }

  /// The maximum number of running lookups, which limits the threads of a flapping network.
  static var maxLookups: Int { 8 }

  private var state = State.new
  private var running: Set<LookupID> = []
  private var lastLookup: LookupID = 0
  /// Lookups with lower IDs started before the last change.
  private var firstCurrent: LookupID = 1
  /// Whether the network changed a moment ago.
  private var isSettling = false
  /// The failure since the last change, which counts once the network has settled.
  private(set) var failure: (any Error)?

  /// Whether a change of the network affects this search. A change before the search begins
  /// precedes all lookups. A change after the search has failed counts, because the attempt to
  /// connect may not have seen the failure yet.
  var hasBegun: Bool { self.state != .new }

  var isSearching: Bool { self.state == .searching }

  func isRunning(_ id: LookupID) -> Bool { self.isSearching && self.running.contains(id) }

  mutating func handle(_ input: Input) -> [Action] {
    switch (input, self.state) {
    case (.begin(let isSettling), .new):
      (self.state, self.isSettling) = (.searching, isSettling)
      return self.startCurrent()
    case (.giveUp(let error), .new), (.giveUp(let error), .searching):
      return self.finish(.failure(error))
    case (.changed, .searching):
      self.firstCurrent = self.lastLookup + 1
      (self.isSettling, self.failure) = (true, nil)
      return self.startCurrent() + [.settle]
    case (.settled, .searching):
      self.isSettling = false
      return self.failure.map { self.finish(.failure($0)) } ?? []
    case (.ended(let id, let result), .searching):
      guard self.running.remove(id) != nil else { return [] }
      guard case .failure(let error) = result else { return self.finish(result) }
      if id < self.firstCurrent { return self.startCurrent() }
      guard self.isSettling else { return self.finish(result) }
      self.failure = error
      return []
    case (.begin, _), (.changed, _), (.ended, _), (.settled, _), (.giveUp, .finished):
      return []
    }
  }

  /// Starts a lookup, unless one has started since the last change, or too many are running. If too
  /// many are running, the lookup starts when one of them fails.
  private mutating func startCurrent() -> [Action] {
    guard self.lastLookup < self.firstCurrent, self.running.count < Self.maxLookups else {
      return []
    }
    self.lastLookup += 1
    self.firstCurrent = self.lastLookup
    self.running.insert(self.lastLookup)
    return [.start(self.lastLookup)]
  }

  private mutating func finish(_ result: Result<Answer, any Error>) -> [Action] {
    (self.state, self.running) = (.finished, [])
    return [.finish(result)]
  }
}
