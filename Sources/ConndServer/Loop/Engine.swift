import Connectivity
import ConnectivityRules
import Netlink

/// Reads the kernel through the ``Kernel`` protocol, compares the result with the published state,
/// and returns what to publish.
///
/// The engine is a value without a thread or a clock. The monitor thread drives it with real time,
/// tests drive it with their own time. A step covers only the default paths, because every client
/// depends on them. Single destinations and flows are evaluated after the step has been published.
struct Engine {
  private(set) var reader: PathReader
  /// Whether clients may learn which Wi-Fi networks were joined.
  private(set) var identify: Identification
  var changes: ChangeDetector
  /// The state that one reading passes to the next.
  var context: ReadingContext
  /// The destinations that clients watch, each with the path reported last.
  var watched = WatchedPaths()
  var flows = FlowTable()
  private var clocks = ClockSteps()
  private var isKernelLost = false
  /// When the next grace period of the stream of changes ends.
  private var grace: Instant?
  /// When the kernel's answers expire (D9).
  private var expiry: Instant?
  /// Whether `expiry` is the time of the second reading after an expiry.
  private var looksAgain = false

  struct Step {
    /// The changes in the order of publication.
    var changes: [ConnectivityChange]
    /// The trigger and time of the reading, for the sweep of the flows after the publication.
    var followers: PendingCauses.Step
  }

  /// - Parameters:
  ///   - restored: The snapshot that an earlier run published last.
  ///   - costs: The users' cost overrides.
  init(
    _ configuration: Configuration, restored: ConnectivitySnapshot?,
    costs: OverrideFile.Contents = OverrideFile.Contents()
  ) {
    self.reader = PathReader(configuration, costs)
    self.identify = configuration.identify
    self.changes = ChangeDetector(
      restored: restored, preferred: configuration.prefer, policy: configuration.invalidations)
    self.context = ReadingContext(modems: ModemCache(restored: restored))
    self.context.subscriptions.ignoredLinks.use(
      self.changes.followed.flatMap { $0.path.chain.map(\.index) })
  }

  /// Applies another configuration. The caller must run a step afterwards.
  mutating func configure(_ configuration: Configuration) {
    self.reader = PathReader(
      configuration, self.costs, self.metering, self.validations, self.conditions)
    self.identify = configuration.identify
    self.changes.preferred = configuration.prefer
    self.changes.policy = configuration.invalidations
    self.context.subscriptions.tunnelCosts = TunnelCosts()
  }

  /// The snapshot published last.
  var snapshot: ConnectivitySnapshot { self.changes.snapshot }

  /// The users' cost overrides. After a change, the caller must run a step.
  var costs: OverrideFile.Contents {
    get { .init(key: self.reader.networkKey, overrides: self.reader.classifier.overrides) }
    set {
      (self.reader.networkKey, self.reader.classifier.overrides) = (
        newValue.key, newValue.overrides
      )
      self.context.subscriptions.tunnelCosts = TunnelCosts()
    }
  }

  /// The costs of links according to sources other than the kernel. After a change, the caller must
  /// run a step.
  var metering: MeteringReports {
    get { self.reader.classifier.metering }
    set { self.reader.classifier.metering = newValue }
  }

  /// The reports of sources other than the kernel on whether links reach the internet. After a
  /// change, the caller must run a step.
  var validations: ValidationReports {
    get { self.reader.classifier.validations }
    set { self.reader.classifier.validations = newValue }
  }

  /// How well links pass traffic. After a change of its reports, the caller must run a step.
  var conditions: LinkConditions {
    get { self.reader.classifier.conditions }
    set { self.reader.classifier.conditions = newValue }
  }

  /// The address family that decides a tie.
  var preferred: AddressFamily { self.changes.preferred }

  /// When to step again even without a kernel message, and why.
  var deadline: (due: Instant, trigger: ReadTrigger)? {
    switch (self.grace, self.expiry) {
    case (let due?, let expiry?) where expiry < due: (expiry, .expiry)
    case (let due?, _): (due, .timer)
    case (nil, let expiry?): (expiry, .expiry)
    case (nil, nil): nil
    }
  }

  // MARK: - Steps

  /// Reads the default paths and compares them with the published ones.
  mutating func step(
    _ trigger: ReadTrigger, _ kernel: any Kernel, at now: Instant, time: WallTime
  ) throws(KernelUnavailable) -> Step {
    self.clocks.step(to: now, time).map { self.changes.shiftTimes(by: $0) }
    self.context.wireless.beginStep()
    self.context.subscriptions.gateways.now = now
    if case .events(let events) = trigger { self.context.note(events) }
    // Messages from the time when the kernel was unavailable are lost, as after an overrun.
    if self.isKernelLost { self.context.note([.overrun]) }
    try kernel.waitForChanges()
    let reading = try self.settledReading(kernel, Removals(trigger))
    let trigger = self.isKernelLost ? .kernelBack : trigger
    self.isKernelLost = false
    self.renewExpiry(kernel, at: now)
    let made = self.changes.update(to: reading, on: trigger, at: now, time: time)
    self.grace = made.deadline
    let slept: Duration? = if case .resumed(let slept) = trigger { slept } else { nil }
    let change = trigger == .timer ? nil : now
    return Step(
      changes: made.changes, followers: .init(trigger: trigger, time: change, slept: slept))
  }

  /// Reads until the reading is settled. If routes change even faster, the kernel's messages cause
  /// another step.
  private mutating func settledReading(
    _ kernel: any Kernel, _ removals: Removals
  ) throws(KernelUnavailable) -> ChangeDetector.Reading {
    let paths = DefaultPathReader(reader: self.reader, changes: self.changes)
    var repetitions = 0
    while true {
      let reading = try self.context.read(kernel) { (view) throws(KernelUnavailable) in
        try paths.read(view, removals)
      }
      if reading.isSettled || repetitions == Self.maxRepetitions { return reading.state }
      repetitions += 1
    }
  }

  private static let maxRepetitions = 3

  /// In a route's last 10 ms, the kernel reports that the route never expires. So connd keeps the
  /// earlier expiry until it has passed. A briefly renewed route may then be in its last 10 ms
  /// again, so connd reads a second time.
  private mutating func renewExpiry(_ kernel: any Kernel, at now: Instant) {
    let isOver = self.expiry.map { $0 <= now } ?? false
    if isOver { self.expiry = nil }
    self.noteExpiry(kernel, at: now)
    guard isOver else { return }
    self.looksAgain = self.expiry == nil && !self.looksAgain
    if self.looksAgain { self.expiry = now.advanced(by: Self.lastMoments) }
  }

  /// The delay until the second reading. It is longer than 10 ms plus the kernel's clock tick.
  private static let lastMoments = Duration.milliseconds(20)

  mutating func noteExpiry(_ kernel: any Kernel, at now: Instant) {
    guard let expiry = kernel.takeExpiry().map({ now.advanced(by: $0) }) else { return }
    self.expiry = min(self.expiry ?? expiry, expiry)
  }

  /// Compares the DNS settings with the published ones.
  mutating func update(
    to settings: DNSSettings, learntLate: Bool = false, time: WallTime
  ) -> [ConnectivityChange] {
    self.changes.update(to: settings, learntLate: learntLate, time: time).map { [$0] } ?? []
  }

  /// Marks guarded flows and watched destinations as due after a publication. `evaluateFlows` and
  /// `evaluatePaths` then evaluate them slice by slice.
  mutating func follow(_ step: Step) {
    self.flows.examineAll(step.followers)
    self.watched.examineAll()
  }

  /// Marks the flows and watched destinations of some users as due, because the quality of a link
  /// has changed for these users.
  mutating func examine(trafficOf users: Set<UInt32>) {
    guard !users.isEmpty else { return }
    self.flows.examine(trafficOf: users)
    self.watched.examine(trafficOf: users)
  }

  /// Resets everything to unknown after the kernel became unavailable (K8). No flow is judged.
  mutating func lostKernel(
    _ reason: KernelUnavailable, at now: Instant, time: WallTime
  ) -> (changes: [ConnectivityChange], paths: [(destination: Destination, path: KernelPath)]) {
    self.isKernelLost = true
    let made = self.changes.update(
      to: ChangeDetector.Reading(.unknown), on: .kernelLost(reason.description), at: now, time: time
    )
    (self.grace, self.expiry, self.looksAgain) = (made.deadline, nil, false)
    return (made.changes, self.watched.lose().map { ($0, .unknown) })
  }
}

extension PathReader {
  fileprivate init(
    _ configuration: Configuration, _ costs: OverrideFile.Contents,
    _ metering: MeteringReports = MeteringReports(),
    _ validations: ValidationReports = ValidationReports(),
    _ conditions: LinkConditions = LinkConditions()
  ) {
    self.init(
      destinations: configuration.destinations,
      classifier: PathClassifier(
        policy: configuration.links, overrides: costs.overrides, metering: metering,
        validations: validations, conditions: conditions),
      networkKey: costs.key)
  }
}
