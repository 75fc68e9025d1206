import Connectivity
import ConnectivityRules
import CoreMetrics
import Invariants

/// The counters since connd's start. The .proto describes each of them. Safe to use from any
/// thread.
struct Statistics: Sendable {
  let batches: Counter
  let events: Counter
  let overruns: Counter
  let malformed: Counter
  let readings: Counter
  let resynchronisations: Counter
  let suppressed: Counter
  let kernelLosses: Counter
  let flowPaths: Counter
  let gaps: Counter
  let subscriptions: Counter
  /// Flows that their sockets have spared (E1), and flows that were found dead (E2).
  let spared: Counter
  let found: Counter

  /// Clients' reports about attempts, by their outcomes (Q2).
  private let attempts: [AttemptOutcome: Counter]
  /// Wi-Fi drivers' reports about low signals and lost frames (Q1).
  private let signals: Counter

  private let registry = CounterRegistry()
  private let transitions: Counter
  private let bounces: Counter
  private let paths: Counter
  private let publishedInvalidations: Counter
  private let dnsChanges: Counter

  init() {
    let registry = self.registry
    func counter(_ name: String, _ kind: String? = nil) -> Counter {
      Counter(label: name, dimensions: kind.map { [("kind", $0)] } ?? [], factory: registry)
    }
    self.batches = counter("batches")
    self.events = counter("events")
    self.overruns = counter("overruns")
    self.malformed = counter("malformed")
    self.readings = counter("readings")
    self.resynchronisations = counter("resynchronisations")
    self.suppressed = counter("suppressed")
    self.kernelLosses = counter("kernel_losses")
    self.flowPaths = counter("flow_paths")
    self.gaps = counter("gaps")
    self.subscriptions = counter("subscriptions")
    self.spared = counter("spared")
    self.found = counter("found")
    self.transitions = counter("published", "transition")
    self.bounces = counter("bounces")
    self.paths = counter("published", "path")
    self.publishedInvalidations = counter("published", "invalidation")
    self.dnsChanges = counter("published", "dns")
    let attempts = AttemptOutcome.allCases.map { ($0, counter("attempts", "\($0)")) }
    self.attempts = Dictionary(uniqueKeysWithValues: attempts)
    self.signals = counter("signals")
    // Prometheus does not notice the first increment of a counter that did not exist before.
    for reason in Invalidation.Reason.allCases {
      for name in ["invalidations", "flow_invalidations"] { _ = counter(name, reason.rawValue) }
      if reason != .policy { _ = counter("refutations", reason.rawValue) }
    }
    for limit in Limits.keys + ["descriptors", "floods"] { _ = counter("limits_hit", limit) }
  }

  func count(_ events: [KernelEvent]) {
    var messages = events.count
    for event in events {
      switch event {
      case .overrun:
        // An overrun is not a message; it reports that messages were lost.
        messages -= 1
        self.overruns.increment()
      case .malformed: self.malformed.increment()
      case .signal: self.signals.increment()
      default: break
      }
    }
    guard messages > 0 else { return }
    self.batches.increment()
    self.events.increment(by: messages)
  }

  /// Counts a reading of the kernel and its published changes.
  func count(_ trigger: ReadTrigger, published changes: Int) {
    self.readings.increment()
    if trigger.isResynchronisation { self.resynchronisations.increment() }
    if changes == 0 { self.suppressed.increment() }
  }

  func count(_ outcome: AttemptOutcome) { self.attempts[outcome]?.increment() }

  func count(_ change: ConnectivityChange) {
    switch change {
    case .transition(let transition):
      self.transitions.increment()
      if transition.bounced { self.bounces.increment() }
    case .path: self.paths.increment()
    case .dns: self.dnsChanges.increment()
    case .invalidation(let invalidation):
      self.publishedInvalidations.increment()
      self.increment("invalidations", invalidation.reason.rawValue)
    }
  }

  /// Counts an event that a client received about one of its flows.
  func count(_ reported: FlowTable.FlowNotification) {
    switch reported.event {
    case .path, .betterPathGone: self.flowPaths.increment()
    case .invalidation(let invalidation):
      self.increment("flow_invalidations", invalidation.reason.rawValue)
      if invalidation.reason == .silent, invalidation.severity == .destroy {
        self.found.increment()
      }
      if reported.isRefutation { self.increment("refutations", invalidation.reason.rawValue) }
    case .refused: break
    }
  }

  /// Counts a refutation in the answer to a registration. A new connection proves that its path
  /// works, so a refutation shows an error, usually connd's (I11). A connection that the client
  /// registers with an earlier path does not count.
  func count(_ answer: FlowEvent, to registration: FlowTable.Registration) {
    guard registration.isNew, answer.refutes, case .invalidation(let invalidation) = answer
    else { return }
    self.increment("refutations", invalidation.reason.rawValue)
  }

  /// Counts a client that was refused, or has to wait for a descriptor.
  ///
  /// - Parameter limit: The limit's configuration key, if it has one.
  func hit(_ limit: String) { self.increment("limits_hit", limit) }

  /// Counts a broken invariant, by the place of its check.
  func count(_ fault: Invariants.Fault) { self.increment("faults", fault.place) }

  private func increment(_ name: String, _ kind: String) {
    Counter(label: name, dimensions: [("kind", kind)], factory: self.registry).increment()
  }

  /// The value of one counter or gauge.
  struct Figure: Sendable, Hashable {
    var name: String
    /// Empty if the name has only one figure.
    var kind = ""
    var value: UInt64
    /// Whether the value is a gauge instead of a count since the start.
    var isPresent = false
  }

  /// The counters, by name and kind.
  var counted: [Figure] {
    self.registry.values
      .map { Figure(name: $0.name, kind: $0.kind, value: $1) }
      .sorted { ($0.name, $0.kind) < ($1.name, $1.kind) }
  }
}

extension ReadTrigger {
  /// Whether connd reads everything again, without relying on its earlier state.
  fileprivate var isResynchronisation: Bool {
    switch self {
    case .start, .kernelBack: true
    case .events(let events): events.contains(.overrun)
    default: false
    }
  }
}
