import Connectivity
import Netlink

/// The daemon's mind: reads the kernel through the seam, compares, and says what is to be published.
///
/// A value without a thread or a clock of its own: the monitor's thread drives it with real time, tests with time of their
/// own. What everybody waits for, the default paths, is one step; those of single destinations and flows come after it,
/// when it was published.
struct Engine {
  private(set) var reader: PathReader
  private var changes: ChangeMaker
  /// The destinations that somebody follows, each with the path that was told last.
  private var watched: [Destination: Path] = [:]
  private var flows = FlowTable()
  private let gateways = Gateways()
  private var isKernelLost = false
  /// How many links of each family's default path its connections depend on.
  private var depths: [AddressFamily: Int] = [:]

  /// What is to be published after a step.
  struct Step {
    /// In this order.
    var changes: [Change]
    /// For those who are looked at when the changes are published.
    var occasion: Occasion
    var circumstances: FlowTracker.Circumstances
    /// The hardware addresses that gateways were first told to have.
    var learnt: [Gateway: [UInt8]]
  }

  /// When to step again even if the kernel says nothing.
  private(set) var deadline: Instant?

  init(_ configuration: Configuration, restored: Snapshot?) {
    self.reader = PathReader(configuration)
    self.changes = ChangeMaker(
      restored: restored, preferred: configuration.prefer, policy: configuration.invalidations)
    for family in AddressFamily.allCases {
      self.gateways.bystanders.use(self.changes.path(family)?.chain.map(\.index) ?? [])
    }
  }

  /// What was published last.
  var snapshot: Snapshot { self.changes.snapshot }

  /// The family that decides at a tie.
  var preferred: AddressFamily { self.changes.preferred }

  /// What the kernel is to tell about, beside default routes.
  var watchedByKernel: Watched {
    let single = Set(self.watched.keys.map(\.address)).union(self.flows.addresses)
      .union(self.gateways.tunnelEnds)
    return Watched(
      destinations: self.reader.destinations.all + single.sorted(), gateways: self.gateways.all,
      unheard: self.gateways.bystanders.unheard)
  }

  /// Whether messages may concern what somebody follows. They are to be passed in their order, and all of them; those that
  /// concern nobody need no step.
  func mayMatter(_ events: [KernelEvent]) -> Bool {
    self.gateways.bystanders.mayMatter(events)
  }

  /// What the kernel has told so far is about to be read.
  func beginsToDrain() { self.gateways.bystanders.beginsToDrain() }

  /// All that the kernel has told is read.
  mutating func isDrained() {
    self.gateways.bystanders.isDrained()
    self.flows.isDrained()
  }

  /// The kernel's filter is about to pass more than before, or to be another socket's: what it held back may have led anywhere.
  func hearAllLinks() { self.gateways.bystanders.hearAll() }

  /// Something was missed that may have led anywhere.
  func missedSomething() { self.gateways.bystanders.forget() }

  /// Reads the default paths, and compares with what was published.
  mutating func step(
    _ occasion: Occasion, kernel: some Kernel, at now: Instant, time: Timestamp
  ) throws(KernelUnavailable) -> Step {
    var learnt: [Gateway: [UInt8]] = [:]
    if case .events(let events) = occasion { learnt = self.gateways.note(events) }
    // What the kernel told meanwhile is lost, as in an overrun.
    if self.isKernelLost { learnt = self.gateways.note([.overrun]) }
    let reading = try self.reading(from: kernel, learnt)
    let occasion = self.isKernelLost ? .kernelBack : occasion
    self.isKernelLost = false
    let made = self.changes.update(to: reading, on: occasion, at: now, time: time)
    self.deadline = made.deadline
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    return Step(
      changes: made.changes, occasion: occasion,
      circumstances: .init(categoryChange: made.categoryChange, slept: slept), learnt: learnt)
  }

  private mutating func reading(
    from kernel: some Kernel, _ learnt: [Gateway: [UInt8]]
  ) throws(KernelUnavailable) -> ChangeMaker.Reading {
    var reading = ChangeMaker.Reading(.unknown)
    let flows = FlowReader(classifier: self.reader.classifier, gateways: self.gateways)
    for family in AddressFamily.allCases {
      let (observed, facts) = try self.reader.defaultPath(family, from: kernel)
      reading.observation[family] = observed
      self.gateways.use(facts)
      if let link = observed.path.chain.first?.index {
        self.gateways.use(observed.path.gateway, on: link, family)
      }
      let old = self.changes.path(family)
      let path = flows.path(facts, for: old)
      let baseline = FlowReader.Baseline(
        path: old ?? path, depth: try self.depth(of: old, family, from: kernel),
        source: old?.source)
      reading.flows[family] = try flows.reading(
        facts, of: baseline, to: Destination(facts.destination), path: path,
        network: try flows.network(path, facts, from: kernel), from: kernel)
      reading.flows[family]?.firstHardwareAddress =
        flows.gateway(path, facts).flatMap { learnt[$0] }
      if path.status == .satisfied { self.depths[family] = FlowReader.depth(facts) }
    }
    for source in self.changes.sources
    where try kernel.address(source.address, on: source.link.index) == nil {
      reading.lostSources.insert(source)
    }
    return reading
  }

  /// How many links of the default path its channels depend on.
  private func depth(
    of old: Path?, _ family: AddressFamily, from kernel: some Kernel
  ) throws(KernelUnavailable) -> Int {
    guard let old else { return 0 }
    if let known = self.depths[family] { return known }
    return try self.reader.depth(of: old.chain, from: kernel)
  }

  /// Looks at what somebody follows, after the step was published.
  ///
  /// - Returns: the paths of watched destinations that are new. Flows are looked at slice by slice, by `evaluateFlows`.
  mutating func follow(
    _ step: Step, kernel: some Kernel
  ) throws(KernelUnavailable) -> [(destination: Destination, path: Path)] {
    self.flows.lookAtAll(step.occasion, step.circumstances, learnt: step.learnt)
    var paths: [(Destination, Path)] = []
    for (destination, told) in self.watched {
      let path = try self.followedPath(to: destination, from: kernel)
      if path != told { paths.append((destination, path)) }
    }
    return paths
  }

  /// The path to a destination that somebody follows, of which he is told.
  mutating func followedPath(
    to destination: Destination, from kernel: some Kernel
  ) throws(KernelUnavailable) -> Path {
    let facts = try self.reader.facts(about: destination, from: kernel)
    self.gateways.use(facts)
    let path = self.reader.classifier.path(facts)
    self.watched[destination] = path
    return path
  }

  /// The kernel cannot be asked: nothing is known any more (K8), and no flow is judged.
  mutating func lostKernel(
    _ reason: KernelUnavailable, at now: Instant, time: Timestamp
  ) -> (changes: [Change], paths: [(destination: Destination, path: Path)]) {
    self.isKernelLost = true
    let made = self.changes.update(
      to: ChangeMaker.Reading(.unknown), on: .kernelLost(reason.description), at: now, time: time)
    self.deadline = made.deadline
    var paths: [(Destination, Path)] = []
    for (destination, path) in self.watched where path.status != .unknown {
      self.watched[destination] = .unknown
      paths.append((destination, .unknown))
    }
    return (made.changes, paths)
  }

  /// Follows a destination from now on, whose path is this.
  mutating func watch(_ destination: Destination, path: Path) {
    self.watched[destination] = path
  }

  mutating func unwatch(_ destination: Destination) {
    self.watched[destination] = nil
  }

  /// Takes another configuration; a step must follow.
  mutating func configure(_ configuration: Configuration) {
    self.reader = PathReader(configuration)
    self.changes.preferred = configuration.prefer
    self.changes.policy = configuration.invalidations
  }
}

// MARK: - Flows

extension Engine {
  /// Whether flows wait to be looked at.
  var isBusy: Bool { self.flows.isBusy }

  /// Whether a look at all flows takes so long that a millisecond more does not count.
  var lookTakesLong: Bool { self.flows.lookTakesLong }

  /// When to look at flows even if the kernel says nothing.
  var flowDeadline: Instant? { self.flows.deadline }

  var guardedFlows: Int { self.flows.count }
  func guardedFlows(of guardian: UInt64) -> Int { self.flows.count(of: guardian) }
  func guardedFlows(ofUser uid: UInt32) -> Int { self.flows.count(ofUser: uid) }

  func isGuarded(_ key: FlowTable.Key) -> Bool { self.flows.contains(key) }

  mutating func evaluateFlows(
    from kernel: some Kernel, at now: Instant
  ) throws(KernelUnavailable) -> [FlowTable.Told] {
    try self.flows.evaluate(
      self.reader, self.gateways, policy: self.changes.policy, from: kernel, at: now)
  }

  mutating func lookAtOverdueFlows(at now: Instant) { self.flows.lookAtOverdue(at: now) }

  /// What is needed to guard flows to these destinations, read at once.
  ///
  /// - Parameter past: what was published, the oldest first.
  func registrar(
    for destinations: [Destination], past: [Published], from kernel: some Kernel
  ) throws(KernelUnavailable) -> FlowTable.Registrar {
    self.gateways.doubt()
    return try FlowTable.Registrar(
      destinations, Look(self.reader, self.gateways, kernel), kernel, past: past)
  }

  /// Guards a flow from now on, unless it is dead already. Where the kernel cannot be asked the registrar becomes the
  /// reason, and the flow begins when it can be.
  mutating func guardFlow(
    _ registration: FlowTable.Registration,
    _ registrar: inout Result<FlowTable.Registrar, KernelUnavailable>, at now: Instant
  ) -> FlowTable.Event {
    do throws(KernelUnavailable) {
      let present = try registrar.get()
      return try self.flows.add(registration, present, policy: self.changes.policy, at: now)
    } catch {
      registrar = .failure(error)
      return self.flows.addBlindly(registration)
    }
  }

  /// Takes out the flows that were registered while the kernel could not be asked; they are to be registered now.
  mutating func takeBlindFlows() -> [FlowTable.Registration] { self.flows.takeBlind() }

  mutating func removeFlow(_ key: FlowTable.Key) { self.flows.remove(key) }
  mutating func removeFlows(of guardian: UInt64) { self.flows.removeAll(of: guardian) }

  /// Whether the kernel's filter holds back what may matter: it lacks a gateway, or a link.
  var filterIsTooNarrow: Bool {
    self.gateways.isNew || self.gateways.bystanders.filterIsTooNarrow
  }

  /// Whether the kernel tells much of links that do not matter, which it need not.
  var bystandersAreLoud: Bool { self.gateways.bystanders.areLoud }

  /// What becomes of links that come from now on need not be told, as long as nothing leads to them.
  ///
  /// - Returns: whether the kernel's filter is to be set.
  func ignoreBystanders(_ kernel: some Kernel) -> Bool {
    // Where they cannot be listed, some just come and go; another time. A kernel that is lost shows at the next reading.
    let present = try? kernel.linkIndexes()
    self.gateways.bystanders.ignore(after: present)
    return present != nil
  }

  /// The kernel's filter passes all that matters.
  ///
  /// - Returns: what was missed before it did; `nil` where nothing can have been.
  func filterIsSet(_ kernel: some Kernel) throws(KernelUnavailable) -> [KernelEvent]? {
    try self.gateways.filterIsSet(kernel)
  }
}

extension PathReader {
  fileprivate init(_ configuration: Configuration) {
    self.init(
      destinations: configuration.destinations,
      classifier: PathClassifier(policy: configuration.links))
  }
}
