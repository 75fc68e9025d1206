import Connectivity
import Testing

@testable import ConnectivityRules

/// A timeline of scenes in one line of text, played to a change maker in virtual time.
///
///     0s wifi cellular | 1s wifi:dead cellular | 1.5s cellular | 2s ? | 9s slept:7s cellular
///
/// Each entry is an instant and the links that exist then: `wired`, `wifi`, `wifi2`, `cellular`.
/// Their default routes win in this order. Deviations from the normal state follow a colon:
/// - `dead`, `down`: no carrier; set down;
/// - `noroute`, `noaddress`: without the default route or the address; a `4` or `6` at the end
///   limits it to that family;
/// - `host8`, `rotated`: another source address of the same subnet, in place of or beside the old
///   one;
/// - `subnet2`, `renumbered`: an address of another subnet, and with it another gateway, in place
///   of or beside the old one;
/// - `gateway2`: the default route leads to another router's address;
/// - `router2`, `norouter`: another router with the gateway's address, or one that the kernel does
///   not know;
/// - `lost3`: the kernel's count of carrier losses since the link was created;
/// - `index9`: the same link, recreated.
///
/// The kernel's messages follow from the changes. `!link`, `!address`, `!address6` and `!route` add
/// messages about a loss and return on the first link; `+overrun` says that some were lost. `?` is
/// a kernel that cannot be asked, `slept:7s` a machine that wakes up. The first reading is the one
/// at the start. Deadlines are met on time.
///
/// The output has one line for each instant with published changes, in order: `1s wifi>none, advise
/// categoryChanged`; `transitions` leaves out the invalidations. The story also follows one flow,
/// and keeps its reports. ``read(_:_:on:)`` gives it what the notation does not have.
struct Story {
  private(set) var published: [String] = []
  /// The transitions and path changes alone.
  private(set) var transitions: [String] = []
  private(set) var changes: [ConnectivityChange] = []
  /// The reports to the flow; they end with the first `destroy`.
  private(set) var told: [String] = []

  private var daemon: TestDaemon
  private let families: [AddressFamily]
  private let flow: (aim: Scene.Aim, family: AddressFamily)
  private var tracker: FlowTracker?
  private var now = Instant(milliseconds: 0)
  private var hasStarted = false

  init(
    _ families: [AddressFamily] = [.ipv4], flow aim: Scene.Aim = .elsewhere,
    policy: InvalidationPolicy = InvalidationPolicy(), restored: ConnectivitySnapshot? = nil,
    preferred: AddressFamily = .ipv4
  ) {
    self.families = families
    self.flow = (aim, families.last ?? .ipv4)
    self.daemon = TestDaemon(
      ChangeDetector(restored: restored, preferred: preferred, policy: policy))
  }

  var maker: ChangeDetector { self.daemon.maker }

  /// The causes of the transitions and path changes.
  var causes: [ChangeCause] { self.changes.compactMap(\.cause) }

  var preferred: AddressFamily {
    get { self.daemon.maker.preferred }
    set { self.daemon.maker.preferred = newValue }
  }

  /// The changes that a whole timeline publishes.
  static func play(
    _ script: String, _ families: [AddressFamily] = [.ipv4],
    policy: InvalidationPolicy = InvalidationPolicy(), restored: ConnectivitySnapshot? = nil
  ) -> [String] {
    var story = Story(families, policy: policy, restored: restored)
    story.play(script)
    return story.published
  }

  /// The transitions and path changes of a whole timeline.
  static func transitions(
    _ script: String, _ families: [AddressFamily] = [.ipv4], preferred: AddressFamily = .ipv4
  ) -> [String] {
    var story = Story(families, preferred: preferred)
    story.play(script)
    return story.transitions
  }

  /// The reports to a flow in a whole timeline.
  static func follow(
    _ script: String, _ families: [AddressFamily] = [.ipv4], to aim: Scene.Aim = .elsewhere,
    policy: InvalidationPolicy = InvalidationPolicy()
  ) -> [String] {
    var story = Story(families, flow: aim, policy: policy)
    story.play(script)
    return story.told
  }

  mutating func play(_ script: String) {
    for entry in script.split(separator: "|") {
      let words = entry.split(separator: " ")
      guard let instant = words.first.flatMap(Self.duration) else {
        Issue.record("not an instant: \(entry)")
        return
      }
      self.honourDeadlines(until: Instant(sinceStart: instant))
      self.now = Instant(sinceStart: instant)
      self.enter(words.dropFirst())
    }
    self.honourDeadlines(until: nil)
  }

  /// One reading of the default paths after these messages, at the present instant.
  mutating func read(
    _ observation: Observation, _ events: [KernelEvent] = [], on trigger: ReadTrigger? = nil
  ) {
    let trigger = trigger ?? (self.hasStarted ? .events(events) : .start)
    self.hasStarted = true
    self.keep(self.daemon.read(observation, on: trigger, at: self.now))
  }

  // MARK: - Entries

  private mutating func enter(_ words: ArraySlice<Substring>) {
    if words.first == "?" {
      self.publish(self.daemon.loseKernel(at: self.now), nil)
      return
    }
    var scene = Scene()
    var (before, after): ([KernelEvent], [KernelEvent]) = ([], [])
    var slept: Duration?
    for word in words {
      if let place = Self.place(word, self.families) {
        scene.links.append(place)
      } else if word.hasPrefix("slept:") {
        slept = Self.duration(word.dropFirst(6))
      } else if word == "+overrun" {
        after.append(.overrun)
      } else if let link = scene.links.first?.link, let bounce = Self.bounce(word, link) {
        before += bounce
      } else {
        Issue.record("not a word: \(word)")
      }
    }
    let events = before + scene.events(since: self.daemon.scene) + after
    let trigger: ReadTrigger =
      if let slept {
        .resumed(slept)
      } else if self.daemon.isUnknown {
        .kernelBack
      } else {
        self.hasStarted ? .events(events) : .start
      }
    let isHeard = trigger != .start && trigger != .kernelBack
    self.publish(
      self.daemon.read(scene, isHeard ? events : [], on: trigger, at: self.now), slept)
  }

  private static func place(_ word: Substring, _ families: [AddressFamily]) -> Scene.Place? {
    let links: [Substring: TestLink] = [
      "wired": .wired, "wifi": .wifi, "wifi2": .wifi2, "cellular": .cellular,
    ]
    let parts = word.split(separator: ":")
    guard let link = parts.first.flatMap({ links[$0] }) else { return nil }
    var place = Scene.Place(link)
    for family in AddressFamily.allCases where !families.contains(family) {
      place.link.host[family] = nil
      place.link.gateway[family] = nil
    }
    for modifier in parts.dropFirst() {
      let concerned: [AddressFamily] =
        switch modifier.last {
        case "4" where families.count > 1: [.ipv4]
        case "6" where families.count > 1: [.ipv6]
        default: families
        }
      switch modifier {
      case "dead": place.link.hasCarrier = false
      case "down": place.link.isUp = false
      case "noroute", "noroute4", "noroute6":
        for family in concerned { place.link.gateway[family] = nil }
      case "noaddress", "noaddress6": for family in concerned { place.link.host[family] = nil }
      case "host8": for family in concerned { place.link.host[family] = 8 }
      case "rotated":
        for family in concerned {
          place.formerAddresses.formUnion([place.link.source(family)].compactMap { $0 })
          place.link.host[family] = 8
        }
      case "subnet2": place.link.metric += 1
      case "renumbered":
        place.formerAddresses = place.addresses
        place.link.metric += 1
      case "gateway2": for family in concerned { place.link.gateway[family] = 2 }
      case "lost1", "lost2", "lost3", "lost5":
        place.link.carrierDownCount = modifier.last?.wholeNumberValue.map { UInt32($0) }
      case "router2": place.router = 2
      case "norouter": place.router = nil
      case "index9": place.link.index = 9
      default: return nil
      }
    }
    return place
  }

  private static func bounce(_ word: Substring, _ link: TestLink) -> [KernelEvent]? {
    switch word {
    case "!link": [.link(link.withoutCarrier.link), .link(link.link)]
    case "!address": link.removed(.ipv4) + link.added(.ipv4)
    case "!address6": link.removed(.ipv6) + link.added(.ipv6)
    case "!route": link.routeRemoved(.ipv4) + link.routeAdded(.ipv4)
    default: nil
    }
  }

  // MARK: - Time

  private mutating func honourDeadlines(until end: Instant?) {
    while let due = self.deadline, end.map({ due <= $0 }) ?? true {
      self.now = due
      self.publish(self.daemon.readAgain(at: due), nil)
      guard self.deadline.map({ $0 > due }) ?? true else {
        Issue.record("a deadline that has come stays")
        return
      }
    }
  }

  private var deadline: Instant? {
    [self.daemon.deadline, self.tracker?.deadline].compactMap { $0 }.min()
  }

  private mutating func publish(_ step: ChangeDetector.Step, _ slept: Duration?) {
    self.hasStarted = true
    self.tellFlow(slept)
    self.keep(step)
  }

  private mutating func keep(_ step: ChangeDetector.Step) {
    let first = self.maker.snapshot.generation - UInt64(step.changes.count) + 1
    #expect(step.changes.map(\.generation) == step.changes.indices.map { first + UInt64($0) })
    guard !step.changes.isEmpty else { return }
    self.changes += step.changes
    self.transitions += step.changes.filter { $0.cause != nil }
      .map { "\(self.now.text) \($0.text)" }
    self.published.append(
      "\(self.now.text) \(step.changes.map(\.text).joined(separator: ", "))")
  }

  private mutating func tellFlow(_ slept: Duration?) {
    let (aim, family) = self.flow
    guard var tracker = self.tracker else {
      // The flow is made when the story begins, and not again.
      guard self.told.isEmpty, !self.daemon.isUnknown else { return }
      // As connect(2) does: first it gets the address, and then uses it.
      let source = self.daemon.scene.path(to: aim, family).source
      let path = self.daemon.scene.path(to: aim, family, from: source)
      var tracker = FlowTracker(
        Flow(Destination(.unspecified(family)), local: source), on: path,
        network: self.daemon.networks.identity(of: path))
      let verdict = tracker.register(
        on: self.daemon.reading(of: path, from: source, to: aim, family), since: nil,
        policy: self.maker.policy, at: self.now)
      self.tracker = tracker
      if let verdict { self.told.append("\(self.now.text) \(verdict.text)") }
      return
    }
    let verdict = tracker.update(
      to: self.daemon.reading(of: tracker.path, from: tracker.source, to: aim, family),
      slept: slept, policy: self.maker.policy, at: self.now)
    self.tracker = verdict?.severity == .destroy ? nil : tracker
    if let verdict { self.told.append("\(self.now.text) \(verdict.text)") }
  }

  private static func duration(_ text: Substring) -> Duration? {
    guard text.hasSuffix("s"), let seconds = Double(text.dropLast()) else { return nil }
    return .milliseconds(Int((seconds * 1000).rounded()))
  }
}

// MARK: - Text

extension Instant {
  var text: String {
    let seconds = "\(Double(self.milliseconds) / 1000)"
    return (seconds.hasSuffix(".0") ? String(seconds.dropLast(2)) : seconds) + "s"
  }
}

extension FlowTracker.Verdict {
  var text: String { "\(self.severity) \(self.reason)" }
}

extension ConnectivityChange {
  /// The cause of a transition or a path change, or `nil` for other changes.
  fileprivate var cause: ChangeCause? {
    switch self {
    case .transition(let transition): transition.cause
    case .path(let path): path.cause
    case .dns, .invalidation: nil
    }
  }

  fileprivate var text: String {
    switch self {
    case .transition(let transition):
      "\(transition.from)>\(transition.to)" + (transition.bounced ? " bounced" : "")
    case .path: "path"
    case .dns: "dns"
    case .invalidation(let invalidation):
      (["\(invalidation.severity)", "\(invalidation.reason)"] + invalidation.scope.words)
        .joined(separator: " ")
    }
  }
}

extension Invalidation.Scope {
  fileprivate var words: [String] {
    [self.interface, self.family?.rawValue, self.destination?.description].compactMap { $0 }
      + (self.localAddresses ?? []).map(\.description)
  }
}
