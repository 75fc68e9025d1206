import Connectivity
import DequeModule
import Glibc
import Logging
import ServiceLifecycle
import Synchronization
import Systemd
import UnixTransport

/// The service around the thread that owns the kernel.
///
/// Whoever wants something of the kernel hands the thread an ``Input``; nobody else touches it. Safe to use from any thread.
final class Monitor: Service {
  private let wakeUp: WakeUp
  private let inputs = Mutex<Deque<Input>>([])
  private let state = Mutex(State.running)
  private let lastGuardian = Atomic<UInt64>(0)
  private let makeLoop: @Sendable () -> MonitorLoop
  /// The thread's alone; `nil` where nothing is recorded.
  nonisolated(unsafe) private let recorder: Recorder?

  private enum State {
    case running
    case stopping
    /// The thread is gone: nothing will be done any more.
    case stopped
  }

  /// - Parameters:
  ///   - recorder: notes what the thread is told and asked; used on the thread.
  ///   - makeLoop: called on the thread.
  init(
    recorder: Recorder? = nil, makeLoop: @escaping @Sendable () -> MonitorLoop
  ) throws(SystemError) {
    self.wakeUp = try WakeUp()
    self.recorder = recorder
    self.makeLoop = makeLoop
  }

  func run() async throws {
    await withTaskCancellationOrGracefulShutdownHandler {
      await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
        let run: @Sendable () -> Void = {
          self.runLoop()
          ended.resume()
        }
        // Without threads to be had, the caller's does the work.
        if !Thread.start(named: "connd-monitor", run) { run() }
      }
    } onCancelOrGracefulShutdown: {
      self.state.withLock { if $0 == .running { $0 = .stopping } }
      self.wakeUp.signal()
    }
  }

  private func runLoop() {
    var loop = self.makeLoop()
    var waiter = Waiter(self.wakeUp)
    loop.start()
    while self.state.withLock({ $0 == .running }) {
      self.takeInputs(&loop)
      loop.beginTurn()
      // What was handed over before this point has set the wake-up, so the wait does not sleep over it.
      let kernel = loop.listens ? loop.kernel?.fileDescriptor ?? -1 : -1
      let due = loop.due
      self.recorder?.flush()
      let woken = waiter.wait(
        for: kernel, dns: loop.dns?.fileDescriptor ?? -1,
        modems: pollfd(
          fd: loop.modems?.fileDescriptor ?? -1, events: loop.modems?.events ?? 0, revents: 0),
        metering: loop.metering?.descriptors ?? [],
        until: due)
      self.recorder?.begin(woken)
      loop.go(on: woken)
    }
    self.recorder?.flush()
    loop.endStreams()
    self.state.withLock { $0 = .stopped }
    while self.takeInputs(&loop) {}
    loop.dropQuestions()
  }

  /// However much clients ask, the kernel is heard in between.
  private static let mostInputs = 1024

  /// - Returns: whether there is more.
  @discardableResult
  private func takeInputs(_ loop: inout MonitorLoop) -> Bool {
    let (inputs, hasMore) = self.inputs.withLock { inputs in
      let first = Array(inputs.prefix(Self.mostInputs))
      inputs.removeFirst(first.count)
      return (first, !inputs.isEmpty)
    }
    for input in inputs {
      self.recorder?.note(input)
      loop.take(input)
    }
    if hasMore { self.wakeUp.signal() }
    return hasMore
  }

  /// Hands something to the thread.
  ///
  /// - Returns: `false` if it has stopped, and nothing comes of it.
  @discardableResult
  func submit(_ input: Input) -> Bool {
    let isAccepted = self.state.withLock { state in
      guard state != .stopped else { return false }
      self.inputs.withLock { $0.append(input) }
      return true
    }
    if isAccepted { self.wakeUp.signal() }
    return isAccepted
  }

  /// Asks something of the thread; `nil` if it has stopped.
  func ask<Answer: Sendable>(
    _ question: @Sendable (Reply<Answer>) -> Input
  ) async -> Answer? {
    await withCheckedContinuation { continuation in
      let reply = Reply(continuation)
      if !self.submit(question(reply)) { reply.resume(returning: nil) }
    }
  }

  /// Opens a client's mailbox for what becomes of its flows; `nil` if the thread has stopped.
  func admitGuardian(of account: Account, _ memory: CallMemory) async -> Guardian? {
    let number = self.lastGuardian.wrappingAdd(1, ordering: .relaxed).newValue
    let guardian = Guardian(number, of: account, memory)
    return await self.ask { .admit(guardian, $0) } == nil ? nil : guardian
  }

  /// The client has gone, and its flows are not guarded any more.
  func dismiss(_ guardian: Guardian) {
    self.submit(.dismiss(guardian.number))
  }

  /// Whether nothing new will come.
  var isStopping: Bool { self.state.withLock { $0 != .running } }

  /// Returns when the kernel was read for the first time, or could not be.
  func firstReading() async {
    _ = await self.ask { .awaitFirstReading($0) }
  }
}
