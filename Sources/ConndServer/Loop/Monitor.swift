import Connectivity
import DequeModule
import Glibc
import LinuxSupport
import Logging
import Synchronization
import Systemd
import UnixTransport

/// Runs the thread that queries the kernel and receives its messages.
///
/// Other threads never query the kernel. They send this thread an ``Input``. Safe to use from any
/// thread.
final class Monitor: Sendable {
  private let wakeUp: WakeUp
  private let inputs = Mutex<Deque<Input>>([])
  private let state = Mutex(State.running)
  private let lastGuardian = Atomic<UInt64>(0)
  private let makeLoop: @Sendable () -> MonitorLoop
  /// Used on the monitor thread only; `nil` if nothing is recorded.
  nonisolated(unsafe) private let recorder: Recorder?

  private enum State {
    case running
    case stopping
    /// The thread has ended, so no more inputs are processed.
    case stopped
  }

  /// - Parameters:
  ///   - recorder: Records the thread's inputs and queries. Used on the thread.
  ///   - makeLoop: Called on the thread.
  init(
    recorder: Recorder? = nil, makeLoop: @escaping @Sendable () -> MonitorLoop
  ) throws(SystemError) {
    self.wakeUp = try WakeUp()
    self.recorder = recorder
    self.makeLoop = makeLoop
  }

  /// Runs the thread, and returns when it has ended after ``stop()``.
  func run() async {
    await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
      let run: @Sendable () -> Void = {
        self.runLoop()
        ended.resume()
      }
      // If no thread can be created, the caller's thread does the work.
      if !Thread.start(named: "connd-monitor", run) { run() }
    }
  }

  /// Ends the thread.
  func stop() {
    self.state.withLock { if $0 == .running { $0 = .stopping } }
    self.wakeUp.signal()
  }

  private func runLoop() {
    var loop = self.makeLoop()
    var waiter = Waiter(self.wakeUp)
    loop.start()
    while self.state.withLock({ $0 == .running }) {
      // Inputs signal the wake-up, which ends the wait.
      let kernel = loop.listens ? loop.kernel?.fileDescriptor ?? -1 : -1
      let due = loop.due
      self.recorder?.flush()
      let woken = waiter.wait(for: kernel, loop.sources, until: due)
      self.recorder?.begin(woken)
      loop.turn(on: woken, taking: self.takeInputs())
    }
    self.recorder?.flush()
    loop.finish()
    self.state.withLock { $0 = .stopped }
    var inputs = self.takeInputs()
    while !inputs.isEmpty {
      for input in inputs { loop.take(input) }
      inputs = self.takeInputs()
    }
    loop.finish()
  }

  /// The number of inputs per turn, so that client requests cannot delay kernel messages.
  private static let maxInputs = 1024

  /// Removes and returns the next inputs.
  private func takeInputs() -> [Input] {
    let (inputs, hasMore) = self.inputs.withLock { inputs in
      let first = Array(inputs.prefix(Self.maxInputs))
      inputs.removeFirst(first.count)
      // An empty Deque keeps its buffer.
      if inputs.isEmpty, !first.isEmpty { inputs = [] }
      return (first, !inputs.isEmpty)
    }
    for input in inputs { self.recorder?.note(input) }
    if hasMore { self.wakeUp.signal() }
    return inputs
  }

  /// Submits an input to the thread.
  ///
  /// - Returns: `false` if the thread has stopped and the input is ignored.
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

  /// Submits an input and waits for its reply, or returns `nil` if the thread has stopped.
  func ask<Answer: Sendable>(
    _ question: @Sendable (Reply<Answer>) -> Input
  ) async -> Answer? {
    await withCheckedContinuation { continuation in
      let reply = Reply(continuation)
      if !self.submit(question(reply)) { reply.resume(returning: nil) }
    }
  }

  /// Opens a client's mailbox for the events of its flows, or returns `nil` if the thread has
  /// stopped.
  func admitMailbox(of account: Account, _ memory: CallMemory) async -> GuardMailbox? {
    let number = self.lastGuardian.wrappingAdd(1, ordering: .relaxed).newValue
    let mailbox = GuardMailbox(number, of: account, memory)
    return await self.ask { .admit(mailbox, $0) } == nil ? nil : mailbox
  }

  /// Stops guarding the flows of a client that has disconnected.
  func dismiss(_ mailbox: GuardMailbox) {
    self.submit(.dismiss(mailbox.number))
  }

  /// Whether connd is stopping, so that there are no more events.
  var isStopping: Bool { self.state.withLock { $0 != .running } }

  /// Waits until the kernel has been read for the first time, or could not be read.
  func firstReading() async {
    _ = await self.ask { .awaitFirstReading($0) }
  }
}
