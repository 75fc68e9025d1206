import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Glibc
import LinuxSupport
import Synchronization
import UnixTransport

/// A recording by a separate connd, which needs no privileges and has a private socket.
struct RecordingSession: Sendable {
  let file: String
  /// How long to record, or `nil` to record until it is interrupted.
  let limit: Duration?
  let directory: PrivateDirectory
  let start: StartingState
  let console: Console

  private var socket: String { "\(self.directory.path)/connd.sock" }

  private enum ReadTrigger: Hashable, Sendable {
    /// connd has read the kernel and can be queried.
    case ready
    /// The user interrupts the recording.
    case interrupted
    /// The time limit is reached.
    case complete
    /// connd should be ready by now.
    case late
    /// connd should have ended by now.
    case overdue
    case ended(ExitCode)
  }

  private enum State {
    case starting
    /// The user interrupted early, so the recording ends as soon as it has started.
    case hurried
    case recording
    case ending(isInterrupted: Bool)

    var hasBegun: Bool {
      switch self {
      case .starting, .hurried: false
      case .recording, .ending: true
      }
    }
  }

  /// Returns when the recording is complete.
  ///
  /// - Returns: The number of connd's events, and whether all of them are in the file.
  /// - Throws: `ExitCode`, after a remark, if connd did not record to the end.
  func run(through connector: Connector) async throws -> (events: Int, isComplete: Bool) {
    let (occasions, occur) = AsyncStream.makeStream(of: ReadTrigger.self)
    do throws(SystemError) {
      try SignalPipe.follow([SIGINT, SIGTERM, SIGHUP]) { occur.yield(.interrupted) }
    } catch {
      throw OutputError(description: "cannot wait for signals: \(error)")
    }
    let connd = try ConndProgram.start(
      ["--socket", self.socket, "--record", self.file, "--log-level", "warning"]
        + self.start.arguments, self.console)
    let events = Counter()
    let (state, status, isComplete) = await withTaskGroup(of: Void.self) { group in
      defer { group.cancelAll() }
      // The size of the file before the last queries. They make the file longer, unless connd has
      // stopped writing because the file or the disk is full.
      var before: Int?
      group.addTask { occur.yield(.ended(await connd.end())) }
      group.addTask { await self.follow(events, through: connector) { occur.yield(.ready) } }
      var state = State.starting
      /// Schedules a trigger, unless connd ends before.
      func expect(_ occasion: ReadTrigger, after pause: Duration) {
        group.addTask { if (try? await Task.sleep(for: pause)) != nil { occur.yield(occasion) } }
      }
      for await occasion in occasions {
        switch (occasion, state) {
        case (.ended(let status), _):
          return (state, status, before.map { $0 < NewFile.size(of: self.file) } ?? true)
        case (.ready, .starting):
          state = .recording
          self.console.hint(
            "recording; \(self.limit == nil ? "" : "ends automatically, or with ")Ctrl-C")
          if let limit { expect(.complete, after: limit) }
        // Wait a short time for the initial readings.
        case (.interrupted, .starting):
          state = .hurried
          expect(.late, after: .seconds(5))
        case (.ready, .hurried), (.interrupted, .recording), (.complete, .recording):
          before = NewFile.size(of: self.file)
          await self.ask(through: connector)
          fallthrough
        case (.interrupted, .hurried), (.late, .hurried):
          // Ignore a Ctrl-C that arrives just as the recording ends.
          state = .ending(isInterrupted: occasion != .complete)
          connd.signal(SIGTERM)
          expect(.overdue, after: .seconds(10))
        case (.interrupted, .ending(isInterrupted: false)): state = .ending(isInterrupted: true)
        case (.interrupted, .ending(isInterrupted: true)), (.overdue, _): connd.signal(SIGKILL)
        case (.ready, _), (.late, _), (.complete, _): break
        }
      }
      return (state, ExitStatus.notThere, false)
    }
    guard case .ending = state, status.isSuccess else {
      let end =
        status.rawValue == 128 + SIGKILL ? "was killed" : "exited with \(status.rawValue)"
      self.console.remark(
        state.hasBegun
          ? "connd \(end) before it had written everything: \(self.file) is incomplete"
          : "connd did not start, and nothing was recorded (it exited with \(status.rawValue))"
      )
      throw ExitStatus.notThere
    }
    return (events.count, isComplete)
  }

  private final class Counter: Sendable {
    private let number = Atomic<Int>(0)
    var count: Int { self.number.load(ordering: .relaxed) }
    func increase() { self.number.wrappingAdd(1, ordering: .relaxed) }
  }

  private func follow(
    _ events: Counter, through connector: Connector, _ isReady: @escaping @Sendable () -> Void
  ) async {
    try? await StatusFollower(socket: self.socket, through: connector).run { event in
      switch event {
      case .snapshot: isReady()
      case .change: events.increase()
      case .gap, .disconnected, .resumed: break
      }
    }
  }

  /// Queries connd, so that the recording contains the kernel's answers. A replay can then explain
  /// the state.
  private func ask(through connector: Connector) async {
    try? await connector.withServices(at: self.socket) { connd in
      _ = try await connd.call(ConndServices.Diagnostics.Explain.self)
      _ = try await connd.links()
    }
  }
}
