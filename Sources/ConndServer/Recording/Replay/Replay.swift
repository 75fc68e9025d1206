import Connectivity
import ConnectivityJSON
import LinuxSupport
import Logging
import Netlink
import Systemd

/// A run of the real monitor loop on a recording. The loop's interfaces return the recorded
/// answers, so a replay opens no socket and needs no privileges.
struct Replay {
  private let tape: RecordingCursor
  private let recording: Recording
  private let configuration: Configuration
  private let print: (String) -> Void

  /// - Parameters:
  ///   - print: Receives each line, with its newline.
  ///   - complain: Receives a message for each query that the recording does not contain.
  /// - Throws: If this connd cannot read the recording's configuration.
  init(
    _ recording: Recording, print: @escaping (String) -> Void,
    complain: @escaping (String) -> Void
  ) throws(RecordingError) {
    do throws(ConfigurationError) {
      self.configuration = try .parse(recording.header.configuration, file: "its configuration")
    } catch {
      let mistakes = error.mistakes.map { "\($0)" }.joined(separator: "; ")
      throw RecordingError(description: "cannot be replayed by this version: \(mistakes)")
    }
    self.recording = recording
    self.print = print
    self.tape = RecordingCursor(recording, complain: complain)
  }

  /// Prints the output of `connctl watch --json`, as if connctl had started as soon as connd was
  /// reachable. If an earlier run published something, prints as if connctl had been running since
  /// then.
  ///
  /// - Parameter atEnd: Receives the loop and the published state after the last turn.
  func run(atEnd: (MonitorLoop, Store) -> Void = { _, _ in }) {
    // Without a complete start of connd, nothing can be replayed.
    guard !self.recording.turns.isEmpty else { return }
    let restored = self.recording.header.restored
    let past = self.recording.header.past.map { Published($0) }
    let store =
      past.last?.change.generation == restored.generation
      ? Store(past) : restored.generation > 0 ? Store(at: restored) : Store()
    let publisher = ReplayPublisher(store: store, print: self.print)
    var loop = self.makeLoop(store, publisher)
    if restored.generation > 0 { publisher.begin() }
    loop.start()
    // connd serves clients only from here on.
    publisher.begin()
    while true {
      // The real loop reads the clock here.
      _ = loop.due
      guard let wake = self.tape.advance() else { break }
      let woken = Waiter.Woken(
        hasMessages: wake.hasMessages,
        sources: SourceSet(rawValue: UInt8(truncatingIfNeeded: wake.sources)),
        slept: wake.hasSlept ? .nanoseconds(wake.slept) : nil)
      // Invalid inputs are ignored.
      loop.turn(on: woken, taking: self.tape.inputs.compactMap(\.input))
    }
    atEnd(loop, store)
    loop.finish()
  }

  private func makeLoop(_ store: Store, _ publisher: some Publisher) -> MonitorLoop {
    let tape = self.tape
    let files = ReplayedFiles(tape: tape)
    return MonitorLoop(
      self.configuration, store: store, publisher: publisher, statistics: Statistics(),
      notifier: .silent(
        watchdogTimeout: self.recording.header.watchdogTimeout.map { .nanoseconds($0) }),
      clock: ReplayedClock(tape: tape),
      logger: Logger(label: "connd.replay") { _ in SwiftLogNoOpLogHandler() },
      sources: [ReplayedDNS(files: DNSFiles(from: files)), ReplayedFacts(tape: tape)],
      costs: self.recording.header.costs
    ) { (watched) throws(KernelUnavailable) in
      try NetlinkKernel(
        watching: watched, on: ReplayedSockets(tape: tape), devices: DeviceReader(from: files))
    }
  }
}

/// A publisher that prints each change as a subscriber receives it: encoded and decoded again.
private final class ReplayPublisher: Publisher {
  private let store: Store
  private let print: (String) -> Void
  private var hasBegun = false

  init(store: Store, print: @escaping (String) -> Void) {
    self.store = store
    self.print = print
  }

  /// Prints the snapshot, and from now on the changes.
  func begin() {
    if self.hasBegun { return }
    self.hasBegun = true
    guard let snapshot = try? ConnectivitySnapshot(stored: self.store.snapshot.stored) else {
      return
    }
    self.print(JSON.event(snapshot: snapshot).line(terminator: "\n"))
  }

  func publish(_ changes: [ConnectivityChange]) {
    for change in changes {
      let published = Published(change)
      guard let reported = try? Published(decoding: published.message) else { continue }
      self.store.publish([published])
      if self.hasBegun { self.print(JSON.event(reported.change).line(terminator: "\n")) }
    }
  }
}
