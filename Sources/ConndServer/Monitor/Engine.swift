import Connectivity
import ConnectivityRules
import Netlink
import UnixTransport

/// The daemon's mind: reads the kernel through the seam, compares, and says what is to be published.
///
/// A value without a thread or a clock of its own: the monitor's thread drives it with real time, tests with time of their
/// own. What everybody waits for, the default paths, is one step; those of single destinations and flows come after it,
/// when it was published.
struct Engine {
  private(set) var reader: PathReader
  private var changes: ChangeMaker
  /// The destinations that somebody follows, each with the path that was told last.
  private(set) var watched = WatchedPaths()
  var flows = FlowTable()
  var interests = Interests()
  /// The links that are a modem's.
  var modems: KnownModems
  private var wireless = KnownWireless()
  private var damper: FlapDamper
  private var isKernelLost = false
  private var clocks = ClockSteps()
  /// Until when what the kernel said holds (D9).
  private var expiry: Instant?
  /// The last question that the kernel refused to answer; `nil` if it has answered all since `takeRefusal`.
  private var refusal: KernelUnavailable?

  /// What is to be published after a step.
  struct Step {
    /// In this order.
    var changes: [Change]
    /// For those who are looked at when the changes are published.
    var followers: StepLog.Step
  }

  /// The end of a hold or of a grace of the stream's.
  private var graceOrHold: Instant?

  /// Whether who asks is told which Wi-Fi networks were joined.
  private(set) var identify: Identification

  /// - Parameters:
  ///   - restored: what an earlier run published last.
  ///   - costs: what users have said of links and networks.
  init(
    _ configuration: Configuration, restored: Snapshot?,
    costs: ChoiceFile.Contents = ChoiceFile.Contents()
  ) {
    self.reader = PathReader(configuration, costs)
    self.identify = configuration.identify
    self.damper = FlapDamper(configuration.flaps)
    self.changes = ChangeMaker(
      restored: restored, preferred: configuration.prefer, policy: configuration.invalidations)
    self.modems = KnownModems(restored: restored)
    self.interests.unusedLinks.use(self.changes.followed.flatMap { $0.path.chain.map(\.index) })
  }

  /// What was published last.
  var snapshot: Snapshot { self.changes.snapshot }

  /// What users have said of links and networks; where it is another, a step must follow.
  var costs: ChoiceFile.Contents {
    get { .init(key: self.reader.networkKey, choices: self.reader.classifier.choices) }
    set {
      (self.reader.networkKey, self.reader.classifier.choices) = (newValue.key, newValue.choices)
    }
  }

  /// What others than the kernel say of links' costs; where it is another, a step must follow.
  var metering: MeteringWords {
    get { self.reader.classifier.metering }
    set { self.reader.classifier.metering = newValue }
  }

  /// The family that decides at a tie.
  var preferred: AddressFamily { self.changes.preferred }

  /// When to step again even if the kernel says nothing, and why.
  var deadline: (due: Instant, occasion: Occasion)? {
    switch (self.graceOrHold, self.expiry) {
    case (let due?, let expiry?) where expiry < due: (expiry, .expiry)
    case (let due?, _): (due, .timer)
    case (nil, let expiry?): (expiry, .expiry)
    case (nil, nil): nil
    }
  }

  /// What the kernel is to tell about, beside default routes.
  var watchedByKernel: Watched {
    let single = self.watched.addresses.union(self.flows.addresses)
      .union(self.interests.tunnelEnds)
    return Watched(
      destinations: self.reader.destinations.all + single.sorted(),
      gateways: self.interests.networks.gateways, bridged: self.interests.networks.bridged,
      unheard: self.interests.unusedLinks.unheard)
  }

  // MARK: - Steps

  /// Reads the default paths, and compares with what was published.
  mutating func step(
    _ occasion: Occasion, _ kernel: any Kernel, at now: Instant, time: Timestamp
  ) throws(KernelUnavailable) -> Step {
    self.clocks.step(to: now, time).map { self.changes.shiftTimes(by: $0) }
    self.wireless.beginStep()
    if case .events(let events) = occasion { self.note(events, at: now) }
    // What the kernel told meanwhile is lost, as in an overrun.
    if self.isKernelLost { self.note([.overrun], at: now) }
    let reading = try self.settledReading(kernel, Removals(occasion), at: now)
    let occasion = self.isKernelLost ? .kernelBack : occasion
    self.isKernelLost = false
    // Of a route's last hundredth of a second the kernel says that it lasts for ever, so an earlier answer is kept.
    if let before = self.expiry, before <= now { self.expiry = nil }
    self.noteExpiry(kernel, at: now)
    let made = self.changes.update(to: reading, on: occasion, at: now, time: time)
    self.graceOrHold = [made.deadline, self.damper.deadline(after: now)].compactMap { $0 }.min()
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    return Step(
      changes: made.changes, followers: .init(occasion: occasion, time: now, slept: slept))
  }

  /// Compares whom names are asked of with what was published.
  mutating func update(
    to settings: DNSSettings, learntLate: Bool = false, time: Timestamp
  ) -> [Change] {
    self.changes.update(to: settings, learntLate: learntLate, time: time).map { [$0] } ?? []
  }

  private mutating func note(_ events: [KernelEvent], at now: Instant) {
    self.interests.note(events)
    for event in events {
      self.modems.note(event)
      self.wireless.note(event)
      switch event {
      case .link(let link): self.damper.observe(link, isPartOfPath: false, at: now)
      case .linkRemoved(let link): self.damper.observeRemoval(of: link, at: now)
      default: break
      }
    }
  }

  /// A reading of which what is news holds from its first question to its last: one that the default route moved in would
  /// compare the new connections of one moment with the old ones of another (K8).
  private mutating func settledReading(
    _ kernel: any Kernel, _ removals: Removals, at now: Instant
  ) throws(KernelUnavailable) -> ChangeMaker.Reading {
    for _ in 0..<Self.mostRepetitions {
      let view = self.lendInterests(to: kernel)
      let (reading, paths) = try self.reading(view, removals, at: now)
      if try self.isSettled(paths, view) { return reading }
    }
    return try self.reading(self.lendInterests(to: kernel), removals, at: now).reading
  }

  /// Where routes change faster than that, the messages of it tell.
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
  ) throws(KernelUnavailable) -> (reading: ChangeMaker.Reading, paths: [FamilyPath]) {
    defer { self.takeBack(view) }
    self.reader.held = self.damper.held(at: now)
    var paths = try self.defaultPaths(view)
    let links = paths.flatMap(\.path.facts.allLinks)
    for facts in links { self.damper.observe(facts.link, isPartOfPath: true, at: now) }
    self.damper.forget(allBut: links.map(\.link.name), at: now)
    let held = self.damper.held(at: now)
    if held != self.reader.held {
      self.reader.held = held
      paths = try self.defaultPaths(view)
    }

    let flows = FlowReader(self.reader, view, removals: removals)
    var reading = ChangeMaker.Reading(.unknown)
    for (family, path) in paths {
      reading.observation[family] = path.observed
      let way = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.way(to: path.destination, path.facts, path.present)
      }
      reading.present[family] = PresentPath(
        path.present, network: way?.network ?? NetworkIdentity())
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
    for source in self.changes.formerSources {
      let isLost = try view.unlessRefused { () throws(KernelUnavailable) in
        try view.owner(of: source.address) == nil
      }
      if isLost == true { reading.lostSources.insert(source) }
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

  /// Something was published: what clients follow is looked at, slice by slice, by `evaluatePaths` and `evaluateFlows`.
  mutating func follow(_ step: Step) {
    self.flows.lookAtAll(step.followers)
    self.watched.lookAtAll()
  }

  /// Looks at the next slice of the destinations that somebody follows.
  ///
  /// - Returns: the paths that are new.
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

  /// The path to a destination that somebody follows from now on, and whether it is news to those who do already.
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
    view.interests.use(facts)
    return path
  }

  private mutating func noteExpiry(_ kernel: any Kernel, at now: Instant) {
    guard let expiry = kernel.takeExpiry().map({ now.advanced(by: $0) }) else { return }
    self.expiry = min(self.expiry ?? expiry, expiry)
  }

  /// The kernel cannot be asked: nothing is known any more (K8), and no flow is judged.
  mutating func lostKernel(
    _ reason: KernelUnavailable, at now: Instant, time: Timestamp
  ) -> (changes: [Change], paths: [(destination: Destination, path: Path)]) {
    self.isKernelLost = true
    let made = self.changes.update(
      to: ChangeMaker.Reading(.unknown), on: .kernelLost(reason.description), at: now, time: time)
    (self.graceOrHold, self.expiry) = (made.deadline, nil)
    return (made.changes, self.watched.lose().map { ($0, .unknown) })
  }

  /// Follows a destination from now on, whose path is this.
  mutating func watch(_ destination: Destination, path: Path) {
    self.watched.tell(path, of: destination)
  }

  mutating func unwatch(_ destination: Destination) { self.watched.forget(destination) }

  /// Takes another configuration; a step must follow.
  mutating func configure(_ configuration: Configuration) {
    self.reader = PathReader(configuration, self.costs, self.metering)
    self.identify = configuration.identify
    self.changes.preferred = configuration.prefer
    self.changes.policy = configuration.invalidations
    self.damper.policy = configuration.flaps
  }
}

extension Engine {
  /// The kernel as it is from now on, for one turn. Whoever makes something depend on what he finds takes the interests back.
  func view(of kernel: any Kernel) -> KernelView {
    KernelView(kernel, self.interests, self.modems, self.wireless)
  }

  /// The same, with the interests themselves, to be taken back when it is done: what two hold is copied as soon as one changes it.
  private mutating func lendInterests(to kernel: any Kernel) -> KernelView {
    defer { self.interests = Interests() }
    return self.view(of: kernel)
  }

  /// What was found in a turn is kept.
  private mutating func takeBack(_ view: KernelView) {
    self.interests = view.interests
    self.modems = view.modems
    self.wireless = view.wireless
    self.refusal = view.refusal ?? self.refusal
  }

  /// The last question that the kernel has refused to answer since the last call; `nil` if it has answered all. What depends
  /// on the answer is unknown until a step asks again.
  mutating func takeRefusal() -> KernelUnavailable? {
    defer { self.refusal = nil }
    return self.refusal
  }

  /// The kernel's filter passes all that matters.
  ///
  /// - Returns: what was missed before it did; `nil` where nothing can have been.
  mutating func acceptFilter(_ kernel: any Kernel) throws(KernelUnavailable) -> [KernelEvent]? {
    let view = self.view(of: kernel)
    return try self.interests.acceptFilter(view)
  }
}

// MARK: - Flows

extension Engine {
  /// Looks at the next slice of the flows that are due.
  mutating func evaluateFlows(
    _ kernel: any Kernel, at now: Instant
  ) throws(KernelUnavailable) -> [FlowTable.Told] {
    let view = self.lendInterests(to: kernel)
    defer { self.takeBack(view) }
    let reader = FlowReader(self.reader, view, removals: self.flows.removals)
    let told = try self.flows.evaluate(reader, policy: self.changes.policy, at: now)
    self.noteExpiry(kernel, at: now)
    return told
  }

  /// What is needed to guard flows, read at once.
  ///
  /// - Parameter past: what was published, the oldest first.
  func registrar(
    for registrations: [FlowTable.Registration], past: [Published], _ kernel: any Kernel
  ) throws(KernelUnavailable) -> FlowTable.Registrar {
    let questions = registrations.map { registration in
      var question = registration.flow.destination
      question.source = registration.flow.local
      return question
    }
    return try FlowTable.Registrar(
      questions, FlowReader(self.reader, self.view(of: kernel)), past: past)
  }

  /// Guards a flow from now on, unless it is dead already. Where the kernel cannot be asked the registrar becomes the
  /// reason, and the flow begins when it can be.
  mutating func guardFlow(
    _ registration: FlowTable.Registration, of account: Account,
    _ registrar: inout Result<FlowTable.Registrar, KernelUnavailable>, at now: Instant
  ) -> FlowTable.Event {
    do throws(KernelUnavailable) {
      let present = try registrar.get()
      defer { self.takeBack(present.reader.view) }
      return try self.flows.add(
        registration, of: account, present, policy: self.changes.policy, at: now)
    } catch {
      return self.guardLater(registration, of: account, error, &registrar)
    }
  }

  /// Guards a flow from when the kernel can be asked, or answers what it has refused for this flow.
  mutating func guardLater(
    _ registration: FlowTable.Registration, of account: Account, _ error: KernelUnavailable,
    _ registrar: inout Result<FlowTable.Registrar, KernelUnavailable>
  ) -> FlowTable.Event {
    if error.isOfOneQuestion { self.refusal = error } else { registrar = .failure(error) }
    return self.flows.addBlindly(registration, of: account)
  }
}

extension PathReader {
  fileprivate init(
    _ configuration: Configuration, _ costs: ChoiceFile.Contents,
    _ metering: MeteringWords = MeteringWords()
  ) {
    self.init(
      destinations: configuration.destinations,
      classifier: PathClassifier(
        policy: configuration.links, choices: costs.choices, metering: metering),
      networkKey: costs.key)
  }
}
