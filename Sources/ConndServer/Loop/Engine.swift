import Connectivity
import ConnectivityRules
import Netlink
import UnixTransport

/// Reads the kernel through the ``Kernel`` protocol, compares the result with the published state,
/// and returns what to publish.
///
/// The engine is a value without a thread or a clock. The monitor thread drives it with real time,
/// tests drive it with their own time. A step covers only the default paths, because every client
/// depends on them. Single destinations and flows are evaluated after the step has been published.
struct Engine {
  private(set) var reader: PathReader
  private var changes: ChangeDetector
  /// The destinations that clients watch, each with the path reported last.
  private(set) var watched = WatchedPaths()
  var flows = FlowTable()
  var subscriptions = KernelSubscriptions()
  /// The links that belong to a modem.
  var modems: ModemCache
  private var wireless = WirelessCache()
  private var isKernelLost = false
  private var clocks = ClockSteps()
  /// When the kernel's answers expire (D9).
  private var expiry: Instant?
  /// The last query that the kernel refused since `takeRefusal`, or `nil` if it answered all.
  private var refusal: KernelUnavailable?

  struct Step {
    /// In the order of publication.
    var changes: [Change]
    /// For the flows that are evaluated once the changes have been published.
    var followers: PendingCauses.Step
  }

  /// When the next grace period of the stream ends.
  private var grace: Instant?

  /// Whether clients may learn which Wi-Fi networks were joined.
  private(set) var identify: Identification

  /// - Parameters:
  ///   - restored: The snapshot that an earlier run published last.
  ///   - costs: The users' cost overrides.
  init(
    _ configuration: Configuration, restored: Snapshot?,
    costs: OverrideFile.Contents = OverrideFile.Contents()
  ) {
    self.reader = PathReader(configuration, costs)
    self.identify = configuration.identify
    self.changes = ChangeDetector(
      restored: restored, preferred: configuration.prefer, policy: configuration.invalidations)
    self.modems = ModemCache(restored: restored)
    self.subscriptions.ignoredLinks.use(
      self.changes.followed.flatMap { $0.path.chain.map(\.index) })
  }

  /// The snapshot published last.
  var snapshot: Snapshot { self.changes.snapshot }

  /// The users' cost overrides. After a change, the caller must run a step.
  var costs: OverrideFile.Contents {
    get { .init(key: self.reader.networkKey, overrides: self.reader.classifier.overrides) }
    set {
      (self.reader.networkKey, self.reader.classifier.overrides) = (
        newValue.key, newValue.overrides
      )
      self.subscriptions.tunnelCosts = TunnelCosts()
    }
  }

  /// The costs of links according to sources other than the kernel. After a change, the caller must
  /// run a step.
  var metering: MeteringWords {
    get { self.reader.classifier.metering }
    set { self.reader.classifier.metering = newValue }
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

  /// The subscriptions to kernel messages, in addition to default routes.
  var filterSpec: FilterSpec {
    let single = self.watched.addresses.union(self.flows.addresses)
      .union(self.subscriptions.tunnelEnds)
    return self.filterSpec(self.reader.destinations.all + single.sorted())
  }

  /// The same, for routes to these addresses only.
  func filterSpec(_ destinations: [IPAddress]) -> FilterSpec {
    FilterSpec(
      destinations: destinations, gateways: self.subscriptions.networks.gateways,
      bridged: self.subscriptions.networks.bridged, unheard: self.subscriptions.ignoredLinks.unheard
    )
  }

  // MARK: - Steps

  /// Reads the default paths and compares them with the published ones.
  mutating func step(
    _ trigger: ReadTrigger, _ kernel: any Kernel, at now: Instant, time: Timestamp
  ) throws(KernelUnavailable) -> Step {
    self.clocks.step(to: now, time).map { self.changes.shiftTimes(by: $0) }
    self.wireless.beginStep()
    self.subscriptions.networks.now = now
    if case .events(let events) = trigger { self.note(events) }
    // Messages that the kernel sent meanwhile are lost, as after an overrun.
    if self.isKernelLost { self.note([.overrun]) }
    let reading = try self.settledReading(kernel, Removals(trigger), at: now)
    let trigger = self.isKernelLost ? .kernelBack : trigger
    self.isKernelLost = false
    // In a route's last 10 ms the kernel reports that it never expires, so an earlier answer is
    // kept.
    if let before = self.expiry, before <= now { self.expiry = nil }
    self.noteExpiry(kernel, at: now)
    let made = self.changes.update(to: reading, on: trigger, at: now, time: time)
    self.grace = made.deadline
    let slept: Duration? = if case .resumed(let slept) = trigger { slept } else { nil }
    return Step(
      changes: made.changes, followers: .init(trigger: trigger, time: now, slept: slept))
  }

  /// Compares the DNS settings with the published ones.
  mutating func update(
    to settings: DNSSettings, learntLate: Bool = false, time: Timestamp
  ) -> [Change] {
    self.changes.update(to: settings, learntLate: learntLate, time: time).map { [$0] } ?? []
  }

  private mutating func note(_ events: [KernelEvent]) {
    self.subscriptions.note(events)
    for event in events {
      self.modems.note(event)
      self.wireless.note(event)
    }
  }

  /// Reads until every changed path is stable from the first query to the last. If the default
  /// route moved during the reading, it would compare new connections of one moment with old ones
  /// of another (K8).
  private mutating func settledReading(
    _ kernel: any Kernel, _ removals: Removals, at now: Instant
  ) throws(KernelUnavailable) -> ChangeDetector.Reading {
    for _ in 0..<Self.mostRepetitions {
      let view = self.lendInterests(to: kernel)
      let (reading, paths) = try self.reading(view, removals, at: now)
      if try self.isSettled(paths, view) { return reading }
    }
    return try self.reading(self.lendInterests(to: kernel), removals, at: now).reading
  }

  /// If routes change even faster, the kernel's messages cause another step.
  private static let mostRepetitions = 3

  private func isSettled(
    _ paths: [FamilyPath], _ view: KernelView
  ) throws(KernelUnavailable) -> Bool {
    for (family, path) in paths where path.observed.path != self.snapshot.status[family] {
      let isSettled = try view.unlessRefused { () throws(KernelUnavailable) in
        try self.reader.isSettled(path, view)
      }
      guard isSettled ?? true else { return false }
    }
    return true
  }

  private typealias FamilyPath = (family: AddressFamily, path: DefaultPath)

  private mutating func reading(
    _ view: KernelView, _ removals: Removals, at now: Instant
  ) throws(KernelUnavailable) -> (reading: ChangeDetector.Reading, paths: [FamilyPath]) {
    defer { self.takeBack(view) }
    let paths = try self.defaultPaths(view)
    let flows = FlowReader(self.reader, view, removals: removals)
    var reading = ChangeDetector.Reading(.unknown)
    for (family, path) in paths {
      reading.observation[family] = path.observed
      let way = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.way(to: path.destination, path.facts, path.observed.path)
      }
      reading.networks[family] = way?.network
    }
    for followed in self.changes.followed {
      guard var question = paths.first(where: { $0.family == followed.family })?.path.destination
      else { continue }
      question.source = followed.source
      let source = question
      reading.followed[followed.id] = try view.unlessRefused { () throws(KernelUnavailable) in
        var way = try flows.way(to: source)
        return try flows.reading(
          of: source, madeOn: followed.path, by: followed.firstGateway, &way)
      }
    }
    for former in self.changes.formerSources {
      guard let path = paths.first(where: { $0.family == former.address.family })?.path else {
        continue
      }
      let loss = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.loss(of: former, to: path.destination)
      }
      reading.lostSources[former] = loss ?? nil
    }
    return (reading, paths)
  }

  private func defaultPaths(_ view: KernelView) throws(KernelUnavailable) -> [FamilyPath] {
    try self.reader.askProbes(AddressFamily.allCases, view)
    return try AddressFamily.allCases.map { (family) throws(KernelUnavailable) in
      let path = try view.unlessRefused { () throws(KernelUnavailable) in
        try self.reader.defaultPath(family, view)
      }
      let probe = self.reader.destinations[family].first ?? .unspecified(family)
      return (family, path ?? DefaultPath(unknownTo: Destination(probe)))
    }
  }

  /// Marks what clients watch as due after a publication. `evaluatePaths` and `evaluateFlows` then
  /// evaluate it slice by slice.
  mutating func follow(_ step: Step) {
    self.flows.lookAtAll(step.followers)
    self.watched.lookAtAll()
  }

  /// Evaluates the next slice of the watched destinations.
  ///
  /// - Returns: The paths that have changed.
  mutating func evaluatePaths(
    _ kernel: any Kernel, at now: Instant
  ) throws(KernelUnavailable) -> [(destination: Destination, path: Path)] {
    let destinations = self.watched.takeSlice()
    guard !destinations.isEmpty else { return [] }
    let view = self.lendInterests(to: kernel)
    defer { self.takeBack(view) }
    try view.askAnew(destinations)
    var paths: [(Destination, Path)] = []
    for destination in destinations {
      let path = try self.followedPath(to: destination, in: view)
      if self.watched.tell(path, of: destination) { paths.append((destination, path)) }
    }
    self.noteExpiry(kernel, at: now)
    return paths
  }

  /// Reads the path to a destination that a client begins to watch.
  ///
  /// - Returns: The path, and whether it is new to the clients that already watch the destination.
  mutating func followPath(
    to destination: Destination, _ kernel: any Kernel, at now: Instant
  ) throws(KernelUnavailable) -> (path: Path, isNews: Bool) {
    let view = self.lendInterests(to: kernel)
    defer { self.takeBack(view) }
    let path = try self.followedPath(to: destination, in: view)
    self.noteExpiry(kernel, at: now)
    return (path, self.watched.tell(path, of: destination))
  }

  private func followedPath(
    to destination: Destination, in view: KernelView
  ) throws(KernelUnavailable) -> Path {
    let found = try view.unlessRefused { () throws(KernelUnavailable) in
      try self.reader.path(to: destination, view)
    }
    guard let (path, facts) = found else { return .unknown }
    view.subscriptions.use(facts)
    return path
  }

  private mutating func noteExpiry(_ kernel: any Kernel, at now: Instant) {
    guard let expiry = kernel.takeExpiry().map({ now.advanced(by: $0) }) else { return }
    self.expiry = min(self.expiry ?? expiry, expiry)
  }

  /// Resets everything to unknown after the kernel became unavailable (K8). No flow is judged.
  mutating func lostKernel(
    _ reason: KernelUnavailable, at now: Instant, time: Timestamp
  ) -> (changes: [Change], paths: [(destination: Destination, path: Path)]) {
    self.isKernelLost = true
    let made = self.changes.update(
      to: ChangeDetector.Reading(.unknown), on: .kernelLost(reason.description), at: now, time: time
    )
    (self.grace, self.expiry) = (made.deadline, nil)
    return (made.changes, self.watched.lose().map { ($0, .unknown) })
  }

  /// Begins to watch a destination with its current path.
  mutating func watch(_ destination: Destination, path: Path) {
    self.watched.tell(path, of: destination)
  }

  mutating func unwatch(_ destination: Destination) { self.watched.forget(destination) }

  /// Applies another configuration. The caller must run a step afterwards.
  mutating func configure(_ configuration: Configuration) {
    self.reader = PathReader(configuration, self.costs, self.metering)
    self.subscriptions.tunnelCosts = TunnelCosts()
    self.identify = configuration.identify
    self.changes.preferred = configuration.prefer
    self.changes.policy = configuration.invalidations
  }
}

extension Engine {
  /// Returns a view of the kernel for one turn. If the caller may add subscriptions, it must write
  /// them back with `takeBack`.
  func view(of kernel: any Kernel) -> KernelView {
    KernelView(kernel, self.subscriptions, self.modems, self.wireless)
  }

  /// Returns a view that owns the subscriptions, until `takeBack` returns them. If both held them,
  /// the first change would copy them.
  private mutating func lendInterests(to kernel: any Kernel) -> KernelView {
    defer { self.subscriptions = KernelSubscriptions() }
    return self.view(of: kernel)
  }

  /// Keeps what was found in a turn.
  private mutating func takeBack(_ view: KernelView) {
    self.subscriptions = view.subscriptions
    self.modems = view.modems
    self.wireless = view.wireless
    self.refusal = view.refusal ?? self.refusal
  }

  /// Returns the last query that the kernel has refused since the previous call, or `nil` if it has
  /// answered all. Whatever depends on the answer stays unknown until a step asks again.
  mutating func takeRefusal() -> KernelUnavailable? {
    defer { self.refusal = nil }
    return self.refusal
  }

  /// Notes that the kernel's filter now passes everything that matters.
  ///
  /// - Returns: The messages that the filter held back before, or `nil` if nothing can have been
  ///   missed.
  mutating func acceptFilter(_ kernel: any Kernel) throws(KernelUnavailable) -> [KernelEvent]? {
    let view = self.view(of: kernel)
    return try self.subscriptions.acceptFilter(view)
  }
}

// MARK: - Flows

extension Engine {
  /// Evaluates the next slice of the flows that are due.
  mutating func evaluateFlows(
    _ kernel: any Kernel, at now: Instant, clock: @escaping FlowTable.Clock
  ) throws(KernelUnavailable) -> [FlowTable.FlowNotification] {
    self.subscriptions.networks.now = now
    let view = self.lendInterests(to: kernel)
    defer { self.takeBack(view) }
    let reader = FlowReader(self.reader, view, removals: self.flows.removals)
    let told = try self.flows.evaluate(
      reader, policy: self.changes.policy, at: now, clock: clock)
    self.noteExpiry(kernel, at: now)
    return told
  }

  /// Reads in one batch what is needed to guard flows.
  ///
  /// - Parameter past: The published changes, oldest first.
  func registrar(
    for registrations: [FlowTable.Registration], past: [Published], _ kernel: any Kernel
  ) throws(KernelUnavailable) -> FlowTable.RegistrationContext {
    let questions = registrations.map { registration in
      var question = registration.flow.destination
      question.source = registration.flow.local
      return question
    }
    return try FlowTable.RegistrationContext(
      questions, FlowReader(self.reader, self.view(of: kernel)), past: past)
  }

  /// Guards a flow, unless it is already dead. If the kernel is unavailable, the registrar becomes
  /// the error, and guarding begins once the kernel answers again.
  mutating func guardFlow(
    _ registration: FlowTable.Registration, of account: Account,
    _ registrar: inout Result<FlowTable.RegistrationContext, KernelUnavailable>, at now: Instant
  ) -> FlowEvent {
    do throws(KernelUnavailable) {
      let present = try registrar.get()
      defer { self.takeBack(present.reader.view) }
      return try self.flows.add(
        registration, of: account, present, policy: self.changes.policy, at: now)
    } catch {
      return self.guardLater(registration, of: account, error, &registrar)
    }
  }

  /// Guards a flow once the kernel is available, or once it answers the query that it has refused
  /// for this flow.
  mutating func guardLater(
    _ registration: FlowTable.Registration, of account: Account, _ error: KernelUnavailable,
    _ registrar: inout Result<FlowTable.RegistrationContext, KernelUnavailable>
  ) -> FlowEvent {
    if error.isOfOneQuestion { self.refusal = error } else { registrar = .failure(error) }
    return self.flows.addPending(registration, of: account)
  }
}

extension PathReader {
  fileprivate init(
    _ configuration: Configuration, _ costs: OverrideFile.Contents,
    _ metering: MeteringWords = MeteringWords()
  ) {
    self.init(
      destinations: configuration.destinations,
      classifier: PathClassifier(
        policy: configuration.links, overrides: costs.overrides, metering: metering),
      networkKey: costs.key)
  }
}
