import Connectivity
import ConnectivityRules
import Netlink

/// Reads the kernel through the ``Kernel`` protocol, compares the result with the published state,
/// and returns what to publish.
///
/// The engine is a value without a thread or a clock. The monitor thread drives it with real time,
/// tests drive it with their own time. A step covers only the default paths, because every client
/// depends on them. Its first look finds what new connections get, which is published at once. Its
/// conclusion finds which channels that invalidates. Single destinations and flows are evaluated
/// afterwards.
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
  /// The routes that were removed since the state of the channels was read.
  private var removals = Removals()
  /// The number of steps in succession during which routes have changed.
  private var unsettled = 0
  /// When the next grace period of the stream of changes ends.
  private var grace: Instant?
  /// When the kernel's answers expire (D9).
  private var expiry: Instant?
  /// Whether `expiry` is the time of the second reading after an expiry.
  private var looksAgain = false

  /// The first part of a step.
  struct FirstLook {
    /// The changes to publish before the step continues: a transition or a path change, or none.
    let changes: [ConnectivityChange]
    fileprivate let paths: DefaultPathReader.Paths
    /// The families with changed paths.
    fileprivate let changed: [AddressFamily]
    fileprivate let view: KernelView
    fileprivate let trigger: ReadTrigger
    fileprivate let time: Instant
  }

  struct Conclusion {
    /// The invalidations to publish, in their order.
    var changes: [ConnectivityChange]
    /// The trigger and time of the reading, for the sweep of the flows after the publication.
    var followers: PendingCauses.Step
    /// Whether routes have changed since the first look, so that another step must follow even
    /// without a message.
    var mustRepeat: Bool
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

  /// Reads the default paths and compares them with the published ones. The caller publishes the
  /// change, and then calls ``conclude(_:_:)``.
  mutating func look(
    _ trigger: ReadTrigger, _ kernel: any Kernel, at now: Instant, time: WallTime
  ) throws(KernelUnavailable) -> FirstLook {
    self.clocks.step(to: now, time).map { self.changes.shiftTimes(by: $0) }
    self.context.wireless.beginStep()
    self.context.subscriptions.gateways.now = now
    if case .events(let events) = trigger { self.context.note(events) }
    // Messages from the time when the kernel was unavailable are lost, as after an overrun.
    if self.isKernelLost { self.context.note([.overrun]) }
    self.removals.note(trigger)
    try kernel.waitForChanges()
    let (paths, changed, view) = try self.settledPaths(kernel)
    let trigger = self.isKernelLost ? .kernelBack : trigger
    self.isKernelLost = false
    return FirstLook(
      changes: self.changes.compare(paths.observation, on: trigger, time: time),
      paths: paths, changed: changed, view: view, trigger: trigger, time: now)
  }

  /// Reads the state of the channels on the default paths, and determines which are invalid. If
  /// routes have changed since the first look, the next step does that (K8).
  mutating func conclude(
    _ look: FirstLook, _ kernel: any Kernel
  ) throws(KernelUnavailable) -> Conclusion {
    let (reading, isSettled) = try self.channels(look)
    self.renewExpiry(kernel, at: look.time)
    self.unsettled = isSettled ? 0 : self.unsettled + 1
    let mustRepeat = !isSettled && self.unsettled <= Self.maxRepetitions
    let made =
      mustRepeat
      ? self.changes.concludeUnread(at: look.time)
      : self.changes.conclude(with: reading, at: look.time)
    if !mustRepeat { self.removals = Removals() }
    self.grace = made.deadline
    let slept: Duration? = if case .resumed(let slept) = look.trigger { slept } else { nil }
    return Conclusion(
      changes: made.changes,
      followers: .init(
        trigger: look.trigger, time: look.trigger == .timer ? nil : look.time, slept: slept),
      mustRepeat: mustRepeat)
  }

  /// Returns the state of the channels, and whether it belongs to the moment of the first look. If
  /// the kernel refuses a query, nothing is known about the channels.
  private mutating func channels(
    _ look: FirstLook
  ) throws(KernelUnavailable) -> (ChangeDetector.Reading, Bool) {
    let reader = DefaultPathReader(reader: self.reader)
    let (changes, removals) = (self.changes, self.removals)
    return try self.context.read(look.view) { (view) throws(KernelUnavailable) in
      let read = try view.unlessRefused { () throws(KernelUnavailable) in
        let reading = try reader.channels(look.paths, of: changes, view, removals)
        return (reading, try reader.areSettled(look.paths, of: look.changed, view))
      }
      return read ?? (ChangeDetector.Reading(look.paths.observation), false)
    }
  }

  /// Reads the default paths until they are settled. If routes change even faster, the kernel's
  /// messages cause another step.
  private mutating func settledPaths(
    _ kernel: any Kernel
  ) throws(KernelUnavailable) -> (DefaultPathReader.Paths, [AddressFamily], KernelView) {
    let reader = DefaultPathReader(reader: self.reader)
    let status = self.changes.snapshot.status
    var repetitions = 0
    while true {
      let view = KernelView(kernel, self.context)
      let (paths, changed, isSettled) = try self.context.read(view) {
        (view) throws(KernelUnavailable) in
        let paths = try reader.paths(view)
        let changed = paths.changed(from: status)
        return (paths, changed, try reader.areSettled(paths, of: changed, view))
      }
      if isSettled || repetitions == Self.maxRepetitions { return (paths, changed, view) }
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
  mutating func follow(_ step: Conclusion) {
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
    let unread = self.changes.concludeUnread(at: now).changes
    let made = self.changes.update(
      to: ChangeDetector.Reading(.unknown), on: .kernelLost(reason.description), at: now, time: time
    )
    (self.grace, self.expiry, self.looksAgain) = (made.deadline, nil, false)
    return (unread + made.changes, self.watched.lose().map { ($0, .unknown) })
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
