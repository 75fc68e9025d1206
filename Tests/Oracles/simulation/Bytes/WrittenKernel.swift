import Connectivity
import ConnectivityRules
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
  private func ask<Answer>(
    _ faulty: (FaultyKernel) throws(KernelUnavailable) -> Void,
    _ question: (NetlinkKernel) throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer {
    guard let kernel = self.kernel else { throw .notOpen }
    let before = self.faulty.network
    do throws(KernelUnavailable) {
      try faulty(self.faulty)
    } catch {
      self.sockets.isFailing = true
    }
    defer { self.sockets.isFailing = false }
    // Events in between come before the query if the order is fixed, and after it otherwise.
    self.sockets.network = self.faulty.isOrdered ? self.faulty.network : before
    return try question(kernel)
  }

  // MARK: - Kernel

  var fileDescriptor: CInt { -1 }
  var hasMessages: Bool { self.kernel?.hasMessages ?? false }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    var told: [KernelEvent] = []
    let drained = try self.ask { (faulty) throws(KernelUnavailable) in
      var new: [KernelEvent] = []
      _ = try faulty.drain(into: &new)
      self.sockets.notifications += new
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.drain(into: &told)
    }
    events += told
    return drained
  }

  func waitForChanges() throws(KernelUnavailable) {
    try self.ask { (faulty) throws(KernelUnavailable) in
      try faulty.waitForChanges()
    } _: { kernel in
      kernel.waitForChanges()
    }
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    try self.ask { (faulty) throws(KernelUnavailable) in
      try faulty.watch(watched)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.watch(watched)
    }
  }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.routes(to: destinations)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.routes(to: destinations)
    }
  }

  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.refusesReplies(to: destination, by: link)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.refusesReplies(to: destination, by: link)
    }
  }

  func takeExpiry() -> Duration? { self.kernel?.takeExpiry() }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.entry(for: destination)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.entry(for: destination)
    }
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.link(index)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.link(index)
    }
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.links()
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.links()
    }
  }

  func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> [Address] {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.addresses(with: address, on: link)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.addresses(with: address, on: link)
    }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.addresses()
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.addresses()
    }
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.neighbour(address, on: link)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.neighbour(address, on: link)
    }
  }

  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    self.kernel?.socketReports(on: connections) ?? connections.map { _ in nil }
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try self.ask { (faulty) throws(KernelUnavailable) in
      _ = try faulty.bridgePort(of: hardwareAddress, on: bridge)
    } _: { (kernel) throws(KernelUnavailable) in
      try kernel.bridgePort(of: hardwareAddress, on: bridge)
    }
  }

  /// Always answers "not Wi-Fi", because there is no nl80211.
  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer { .notWireless }
  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal? { nil }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] {
    guard let kernel = self.kernel else { throw .notOpen }
    return try kernel.rules(family)
  }
}
