import Connectivity
import GRPCCore
import Glibc
import Invariants
import LinuxSupport
import Logging
import Synchronization
import Systemd
import UnixTransport

/// The composition root: creates the parts and connects them. ``Lifecycle`` runs them.
struct Connd {
  var configuration: Configuration
  var readConfiguration: @Sendable () throws(ConfigurationError) -> Configuration
  /// The socket path that is used if systemd passed no socket.
  var socketPath: String
  var passed: PassedSockets
  var notifier: Notifier
  var logger: Logger
  var sysfs = "/sys"
  /// The file for a recording, or `nil` if nothing is recorded.
  var recording: String?
  /// The state of the running connd, or `nil` to start with the files of an earlier run.
  var start: StartingPoint?

  /// Runs until SIGTERM or SIGINT. Everything except the monitor runs on the calling thread,
  /// because there is little to do and each thread costs memory.
  func runOnOneThread() throws {
    self.logger.info("connd \(Version.built) starts")
    let reactor = try Reactor()
    try reactor.runBlocking { try await self.run(on: reactor) }
  }

  private func run(on reactor: Reactor) async throws {
    let socket = self.passed.unixListener == nil ? try ListeningSocket(path: self.socketPath) : nil
    // The descriptor is never -1 here: either systemd passed a socket, or connd opened one above.
    let descriptor = self.passed.unixListener?.descriptor ?? socket?.takeDescriptor() ?? -1

    let place = self.passed.unixListener.map(Self.text) ?? self.socketPath
    let history = HistoryFile(
      path: Self.path(of: "history", in: "RUNTIME_DIRECTORY", besides: self.socketPath),
      logger: self.logger)
    var past = history.begin()
    if let start = self.start { past = .init(changes: start.past) }
    let store = Store(past.changes, after: past.generation)
    let statistics = Statistics()
    self.reportFaults(to: statistics)
    let overrideStore = OverrideStore(
      OverrideFile(
        path: Self.path(of: "networks", in: "STATE_DIRECTORY", besides: self.socketPath),
        boot: OverrideFile.bootID(),
        logger: self.logger))
    let trimmer = MemoryTrimmer(on: reactor)
    let monitor = try self.makeMonitor(store, statistics, history, overrideStore, trimmer, reactor)
    let reporter = StatisticsReporter(
      statistics: statistics, store: store, monitor: monitor, logger: self.logger)

    let limiter = ConnectionLimiter(
      self.configuration.limits, trimmer: trimmer, statistics: statistics, logger: self.logger)
    let clients = ClientList()
    let watch = WatchService(
      store: store, statistics: statistics, clients: clients, on: reactor)
    let limits = self.configuration.limits
    let transport = UnixServerTransport(
      listeningOn: descriptor,
      streaming: [
        WatchService.method: { (request, peer, stream) throws(RPCError) in
          try watch.begin(request, of: peer, stream)
        }
      ],
      settings: .init(
        streamsPerConnection: limits.streamsPerConnection, messageSize: limits.messageSize),
      admission: limiter, on: reactor)
    let reloadState = ReloadState(self.configuration)
    let queries = MonitorQueries(monitor: monitor, limiter: limiter)
    let server = GRPCServer(
      transport: transport,
      services: [
        ConnectivityService(store: store, queries: queries, clients: clients),
        CostService(queries: queries),
        DiagnosticsService(
          store: store, queries: queries, reporter: reporter, clients: clients,
          configuration: { reloadState.configuration }, reactor: reactor),
        HealthService(monitor: monitor, store: store), try ReflectionService(),
      ])

    let reloader = Reloader(
      started: self.configuration, read: self.readConfiguration, monitor: monitor,
      limiter: limiter, store: store, notifier: self.notifier, state: reloadState,
      logger: self.logger)
    let announcer = Announcer(
      store: store, monitor: monitor, notifier: self.notifier, reloading: reloadState,
      reactor: reactor,
      listening: { [logger] in
        await transport.listening()
        logger.info("connd listens on \(place)")
        trimmer.started()
      })
    let lifecycle = Lifecycle(
      server: server, transport: transport, monitor: monitor, store: store,
      overrideStore: overrideStore, announcer: announcer, reporter: reporter, reloader: reloader,
      on: reactor, logger: self.logger)
    try await lifecycle.run()
    withExtendedLifetime(socket) {}
  }

  /// Counts and logs broken invariants.
  private func reportFaults(to statistics: Statistics) {
    Invariants.process.report(to: { [logger] fault in
      statistics.count(fault)
      guard fault.isDue else { return }
      logger.error(
        "fault of connd: \(fault.message)",
        metadata: ["place": "\(fault.place)", "count": "\(fault.count)"])
    })
  }

  private func makeMonitor(
    _ store: Store, _ statistics: Statistics, _ history: HistoryFile,
    _ overrideStore: OverrideStore, _ trimmer: MemoryTrimmer, _ reactor: Reactor
  ) throws -> Monitor {
    let (configuration, notifier, logger, sysfs) = (
      self.configuration, self.notifier, self.logger, self.sysfs
    )
    let stored = overrideStore.load()
    let costs = self.start?.overrides ?? stored
    let recorder = try self.recording.map { path throws(RecordingError) in
      try self.makeRecorder(path, store, costs)
    }
    // The socket from systemd can be used once. To reopen netlink, connd opens a new socket.
    let netlink = PassedDescriptor(self.passed.netlinkRoute?.descriptor)
    // From here on, only the monitor thread uses these objects.
    nonisolated(unsafe) let history = history
    nonisolated(unsafe) let edges = MonitorDependencies(sysfs: sysfs, recorder)
    return try Monitor(recorder: recorder) {
      MonitorLoop(
        configuration, store: store,
        publisher: HistoryPublisher(store, history), statistics: statistics,
        notifier: notifier, clock: edges.clock, logger: logger, sources: edges.sources(),
        costs: costs, overrideStore: overrideStore,
        countFlows: { count in
          let bytes = abs(count) * MemoryTrimmer.costOfFlow
          if count > 0 { trimmer.use(bytes) } else { trimmer.free(bytes) }
        },
        deliver: { reactor.runHere($0) }
      ) { (destinations) throws(KernelUnavailable) in
        try NetlinkKernel(
          watching: destinations, on: edges.sockets(adopting: netlink.take()),
          devices: edges.devices)
      }
    }
  }

  private func makeRecorder(
    _ path: String, _ store: Store, _ costs: OverrideFile.Contents
  ) throws(RecordingError) -> Recorder {
    let header = RecordingHeader(
      configuration: self.configuration.source.text,
      watchdogTimeout: self.notifier.watchdogTimeout, restored: store.snapshot,
      costs: costs, past: store.past.map(\.change))
    do throws(SystemError) {
      return try Recorder(path: path, header, logger: self.logger)
    } catch {
      throw RecordingError(description: "\(path) cannot be written as a recording: \(error)")
    }
  }

  private static func text(_ socket: PassedSockets.Socket) -> String {
    guard case .unixListener(let path?) = socket.kind else { return "the socket passed by systemd" }
    return path
  }

  /// Returns a directory that systemd has created, or `nil` if it has not.
  private static func directory(_ variable: String) -> String? {
    getenv(variable).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Returns a file's path in the directory that systemd has created, or else next to the socket.
  private static func path(
    of file: String, in variable: String, besides socket: String
  ) -> String {
    if let directory = Self.directory(variable) { return "\(directory)/connd.\(file)" }
    let stem = socket.hasSuffix(".sock") ? String(socket.dropLast(5)) : socket
    return "\(stem).\(file)"
  }
}

/// A descriptor that can be taken once.
private final class PassedDescriptor: Sendable {
  private let descriptor: Mutex<CInt?>

  init(_ descriptor: CInt?) {
    self.descriptor = Mutex(descriptor)
  }

  func take() -> CInt? {
    self.descriptor.withLock { descriptor in
      defer { descriptor = nil }
      return descriptor
    }
  }
}
