import Connectivity
import ConnectivityRules
import LinuxSupport
import Logging
import Netlink

@testable import ConndServer

/// Records a simulated connd's input and queries, as `connd --record` does.
final class Writer {
  let path: String
  private(set) var recorder: Recorder?
  /// Queries to the clock by other code than connd's are not recorded.
  var isPaused = false

  init(path: String) { self.path = path }

  /// Starts a new file when a connd starts.
  func begin(_ configuration: Configuration, restored: ConnectivitySnapshot) throws {
    let header = RecordingHeader(
      configuration: configuration.source.text, watchdogTimeout: nil, restored: restored)
    // The former recorder closes its file first.
    self.recorder = nil
    self.recorder = try Recorder(
      path: self.path, header, logger: Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
    )
  }

  /// Completes the last turn's record, although others hold the recorder.
  func end() {
    self.recorder?.flush()
    self.recorder = nil
  }
}

/// The simulation's clock. It records when connd reads it.
struct WrittenClock: MonitorClock {
  let clock: any MonitorClock
  let writer: Writer

  var now: Instant {
    let now = self.clock.now
    if !self.writer.isPaused { self.writer.recorder?.note(.now(now.sinceStart.nanoseconds)) }
    return now
  }

  var time: WallTime {
    let time = self.clock.time
    if !self.writer.isPaused { self.writer.recorder?.note(.time(time.microseconds)) }
    return time
  }

  var worked: Duration {
    let worked = self.clock.worked
    if !self.writer.isPaused { self.writer.recorder?.note(.worked(worked.nanoseconds)) }
    return worked
  }
}

/// The model kernel behind netlink's bytes, which connd's own code reads, with a recorder. The
/// faulty kernel gets each query first, and causes the faults.
final class WrittenKernel: ReopenableKernel {
  private let faulty: FaultyKernel
  private let recorder: Recorder
  private let sockets: ModelSockets
  private var kernel: NetlinkKernel?

  init(_ faulty: FaultyKernel, _ recorder: Recorder) {
    self.faulty = faulty
    self.recorder = recorder
    self.sockets = ModelSockets(faulty.network)
    self.sockets.hasMessages = { faulty.hasMessages }
    self.sockets.tracksConnections = faulty.tracksConnections
    self.sockets.socketReport = { faulty.socketReports(on: [$0])[0] }
  }

  func reopen(_ watched: FilterSpec) throws(KernelUnavailable) {
    self.faulty.reopen(watched)
    self.sockets.network = self.faulty.network
    self.sockets.notifications = []
    self.kernel = try NetlinkKernel(
      watching: watched, on: RecordedSockets(sockets: self.sockets, recorder: self.recorder),
      devices: DeviceReader(
        from: RecordedFiles(files: ModelFiles(sockets: self.sockets), recorder: self.recorder)))
  }

  /// Queries the faulty kernel first, and then, in bytes, the network that it used for its answer.
  private func askBoth<Answer>(
    _ question: (any Kernel) throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer {
    guard let kernel = self.kernel else { throw .notOpen }
    let before = self.faulty.network
    do throws(KernelUnavailable) {
      _ = try question(self.faulty)
    } catch {
      self.sockets.isFailing = true
    }
    defer { self.sockets.isFailing = false }
    // Events in between come before the query if the order is fixed, and after it otherwise.
    self.sockets.network = self.faulty.isOrdered ? self.faulty.network : before
    return try question(kernel)
  }

  var hasMessages: Bool { self.kernel?.hasMessages ?? false }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    let sockets = self.sockets
    var told: [KernelEvent] = []
    let mayHaveMore = try self.askBoth { kernel throws(KernelUnavailable) in
      guard kernel is FaultyKernel else { return try kernel.drain(into: &told) }
      return try kernel.drain(into: &sockets.notifications)
    }
    events += told
    return mayHaveMore
  }

  func takeExpiry() -> Duration? { self.kernel?.takeExpiry() }

  func waitForChanges() throws(KernelUnavailable) {
    try self.askBoth { kernel throws(KernelUnavailable) in try kernel.waitForChanges() }
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    try self.askBoth { kernel throws(KernelUnavailable) in try kernel.watch(watched) }
  }

  func ask(_ question: KernelQuestion) throws(KernelUnavailable) -> KernelReply {
    switch question {
    // The reports of sockets come from the faulty kernel's connections.
    case .sockets, .translation:
      guard let kernel = self.kernel else { throw .notOpen }
      return try kernel.ask(question)
    // The simulated networks have no Wi-Fi.
    case .wirelessLink, .wirelessSignal: return try self.faulty.ask(question)
    default:
      return try self.askBoth { kernel throws(KernelUnavailable) in try kernel.ask(question) }
    }
  }
}
