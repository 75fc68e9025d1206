internal import Connectivity
internal import ConnectivityProtocol
private import Synchronization

/// The simulation, its clients, and its time. Safe to use from any thread.
final class SimulatedConnd: Sendable {
  private struct State {
    var simulation: Simulation
    /// How far the simulated time is ahead of the clock.
    var ahead = Duration.zero
    var timer: (deadline: Instant, task: Task<Void, Never>)?
    var refusal: String?
    /// Responses held back from guardians (streams of `Guard`), or `nil` if they are sent
    /// immediately.
    var withheld: [(guardian: UInt64, response: Connectivity_V1_GuardResponse)]?

    var lastNumber: UInt64 = 0
    var subscribers: [UInt64: Subscriber] = [:]
    var watchers: [UInt64: AsyncStream<KernelPath>.Continuation] = [:]
    var guardians: [UInt64: AsyncStream<Connectivity_V1_GuardResponse>.Continuation] = [:]
    var observers: [UInt64: AsyncStream<Void>.Continuation] = [:]

    mutating func nextNumber() -> UInt64 {
      self.lastNumber += 1
      return self.lastNumber
    }
  }

  private struct Subscriber {
    var messages: AsyncStream<Connectivity_V1_WatchResponse>.Continuation
    var kinds: ChangeKinds
  }

  /// A client's stream: its number and its messages.
  struct Stream<Message: Sendable>: Sendable {
    var number: UInt64
    var messages: AsyncStream<Message>
    var end: @Sendable () -> Void
  }

  private let state: Mutex<State>
  private let timekeeper: Timekeeper

  init(_ simulation: Simulation, _ timekeeper: Timekeeper) {
    self.state = Mutex(State(simulation: simulation))
    self.timekeeper = timekeeper
  }

  deinit { self.state.withLock { $0.timer?.task.cancel() } }

  // MARK: - Events

  func start() {
    self.mutate { state, now in
      state.simulation.start(at: now, time: .now())
      return []
    }
  }

  /// Ends all streams.
  func stop() {
    self.mutate { state, _ in
      state.simulation.stop()
      for subscriber in state.subscribers.values { subscriber.messages.finish() }
      for watcher in state.watchers.values { watcher.finish() }
      for guardian in state.guardians.values { guardian.finish() }
      // Later requests on these streams must not affect a connd that is started again.
      (state.subscribers, state.watchers, state.guardians) = ([:], [:], [:])
      return []
    }
  }

  /// Changes the simulation, and notifies all clients.
  func change(
    _ change: @Sendable (inout Simulation, Instant, WallTime) -> [Simulation.Announcement]
  ) {
    self.mutate { state, now in change(&state.simulation, now, .now()) }
  }

  var refusal: String? {
    get { self.state.withLock { $0.refusal } }
    set { self.state.withLock { $0.refusal = newValue } }
  }

  /// Whether responses to guardians are held back.
  var delaysFlows: Bool {
    get { self.state.withLock { $0.withheld != nil } }
    set {
      self.state.withLock { state in
        let withheld = state.withheld ?? []
        state.withheld = newValue ? withheld : nil
        if newValue { return }
        for (guardian, response) in withheld { state.guardians[guardian]?.yield(response) }
      }
    }
  }

  /// Reads from the simulation.
  func read<Result: Sendable>(_ read: (borrowing Simulation) -> Result) -> Result {
    self.state.withLock { read($0.simulation) }
  }

  var isRunning: Bool { self.read { $0.isRunning } }
  var subscribers: Int { self.state.withLock { $0.subscribers.count } }
  var openStreams: Int {
    self.state.withLock { $0.subscribers.count + $0.watchers.count + $0.guardians.count }
  }

  private func mutate(_ change: (inout State, Instant) -> [Simulation.Announcement]) {
    self.state.withLock { state in
      let announcements = change(&state, self.now(state))
      Self.tell(announcements, &state)
      self.schedule(&state)
      for observer in state.observers.values { observer.yield() }
    }
  }

  private static func tell(_ announcements: [Simulation.Announcement], _ state: inout State) {
    let generation = state.simulation.snapshot.generation
    for announcement in announcements {
      switch announcement {
      case .change(let change):
        let message = Connectivity_V1_WatchResponse(change)
        for subscriber in state.subscribers.values where subscriber.kinds.contain(change) {
          subscriber.messages.yield(message)
        }
      case .path(let watcher, let path):
        state.watchers[watcher]?.yield(path)
      case .flow(let key, let event):
        let response = Connectivity_V1_GuardResponse(key.id, event, generation: generation)
        if state.withheld?.append((key.guardian, response)) == nil {
          state.guardians[key.guardian]?.yield(response)
        }
      }
    }
  }

  // MARK: - Time

  private func now(_ state: borrowing State) -> Instant {
    Instant(sinceStart: self.timekeeper.elapsed() + state.ahead)
  }

  private func schedule(_ state: inout State) {
    let deadline = state.simulation.deadline
    guard deadline != state.timer?.deadline else { return }
    state.timer?.task.cancel()
    state.timer = deadline.map { deadline in
      let pause = self.now(state).duration(to: deadline)
      let task = Task { [weak self, timekeeper = self.timekeeper] in
        guard (try? await timekeeper.sleep(max(pause, .zero))) != nil else { return }
        self?.observe()
      }
      return (deadline, task)
    }
  }

  private func observe() {
    self.mutate { state, now in
      state.timer = nil
      return state.simulation.observe(at: now, time: .now())
    }
  }

  /// Lets time pass, at `speed` times the speed of the clock. Events that are due in between happen
  /// in order.
  func pass(_ duration: Duration, speed: Double) async throws {
    let end = self.state.withLock { self.now($0).advanced(by: duration) }
    while true {
      let (now, next) = self.state.withLock { state in
        (self.now(state), min(end, state.simulation.deadline ?? end))
      }
      if speed.isFinite, !self.timekeeper.isStopped, now < next {
        try await self.timekeeper.sleep(now.duration(to: next) / speed)
      } else {
        try Task.checkCancellation()
      }
      self.jump(to: next)
      if next >= end { return }
    }
  }

  /// Lets time pass without waiting.
  func pass(_ duration: Duration) {
    let end = self.state.withLock { self.now($0).advanced(by: duration) }
    while true {
      let next = self.state.withLock { min(end, $0.simulation.deadline ?? end) }
      self.jump(to: next)
      if next >= end { return }
    }
  }

  private func jump(to instant: Instant) {
    self.mutate { state, now in
      if now < instant { state.ahead += now.duration(to: instant) }
      // The running timer sleeps for too long after the jump.
      state.timer?.task.cancel()
      state.timer = nil
      return state.simulation.observe(at: self.now(state), time: .now())
    }
  }

  // MARK: - Subscribers

  /// Waits until the condition is true.
  ///
  /// - Throws: `CancellationError`.
  func wait(until condition: @Sendable (SimulatedConnd) -> Bool) async throws {
    let (changes, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let number = self.state.withLock { state in
      let number = state.nextNumber()
      state.observers[number] = continuation
      return number
    }
    defer { self.state.withLock { _ = $0.observers.removeValue(forKey: number) } }
    continuation.yield()
    for await _ in changes where condition(self) { return }
    throw CancellationError()
  }

  /// Opens a stream of `Watch`, or returns `nil` while connd is not running.
  func subscribe(
    since generation: UInt64?, _ kinds: ChangeKinds
  ) -> Stream<Connectivity_V1_WatchResponse>? {
    let (messages, continuation) = AsyncStream.makeStream(of: Connectivity_V1_WatchResponse.self)
    return self.admit { state, number in
      for message in state.simulation.first(since: generation, kinds) {
        continuation.yield(message)
      }
      state.subscribers[number] = Subscriber(messages: continuation, kinds: kinds)
      return Stream(number: number, messages: messages) { continuation.finish() }
    }
  }

  /// Opens a stream of `WatchPath`, or returns `nil` while connd is not running.
  func watch(_ destination: IPAddress) -> Stream<KernelPath>? {
    let (paths, continuation) = AsyncStream.makeStream(
      of: KernelPath.self, bufferingPolicy: .bufferingNewest(1))
    return self.admit { state, number in
      continuation.yield(state.simulation.watch(destination, number))
      state.watchers[number] = continuation
      return Stream(number: number, messages: paths) { continuation.finish() }
    }
  }

  /// Opens a stream of `Guard`, or returns `nil` while connd is not running.
  func admitMailbox() -> Stream<Connectivity_V1_GuardResponse>? {
    let (messages, continuation) = AsyncStream.makeStream(of: Connectivity_V1_GuardResponse.self)
    return self.admit { state, number in
      state.guardians[number] = continuation
      return Stream(number: number, messages: messages) { continuation.finish() }
    }
  }

  private func admit<Message: Sendable>(
    _ admit: (inout State, UInt64) -> Stream<Message>
  ) -> Stream<Message>? {
    self.state.withLock { state in
      guard state.simulation.isRunning else { return nil }
      let stream = admit(&state, state.nextNumber())
      for observer in state.observers.values { observer.yield() }
      return stream
    }
  }

  /// Removes a stream that has ended.
  func dismiss(_ number: UInt64) {
    self.mutate { state, _ in
      state.subscribers[number] = nil
      state.watchers[number] = nil
      state.guardians[number] = nil
      state.simulation.unwatch(number)
      state.simulation.flows.removeAll(of: number)
      return []
    }
  }

  func add(_ registration: FlowTable.Registration) {
    self.mutate { state, now in
      guard state.guardians[registration.key.guardian] != nil, state.simulation.isRunning else {
        return []
      }
      if let refusal = state.refusal {
        return [.flow(registration.key, .refused(.exhausted(refusal)))]
      }
      return [.flow(registration.key, state.simulation.guardFlow(registration, at: now))]
    }
  }

  func remove(_ key: FlowTable.Key) {
    self.mutate { state, _ in
      guard state.simulation.flows.contains(key) else {
        return [.flow(key, .refused(.invalid("remove.id: flow \(key.id) is not guarded")))]
      }
      state.simulation.flows.remove(key)
      return []
    }
  }

  func refuse(_ key: FlowTable.Key, _ refusal: FlowRefusal) {
    self.mutate { _, _ in [.flow(key, .refused(refusal))] }
  }
}
