import Testing

@testable import Connectivity

/// A history of scenes in a line of text, played to a change maker in virtual time.
///
///     0s wifi cellular | 1s wifi:dead cellular | 1.5s cellular | 2s ? | 9s slept:7s cellular
///
/// Each entry is an instant and the links that are there then: `wired`, `wifi`, `wifi2`, `cellular`, whose default routes
/// win in this order. What is not as usual follows a colon:
/// - `dead`, `down`: no carrier; set down;
/// - `noroute`, `noaddress`: without the default route or the address; with a `4` or `6` at the end only that
///   family's;
/// - `host8`, `rotated`: another source address of the same subnet, in place of or beside the old one;
/// - `subnet2`, `router2`, `norouter`: another subnet, another router behind the gateway's address, or one that the kernel
///   does not know yet;
/// - `index9`: the same link, made anew.
///
/// The messages are those that the kernel sends of what has changed; `!link`, `!address` and `!route` add those of the
/// first link's going and coming back, `+overrun` says that some were lost. `?` is a kernel that cannot be asked,
/// `slept:7s` a machine that wakes. The first reading is the one at the start. Deadlines are honoured on time.
///
/// What is published comes back an instant at a time, in its order: `1s wifi>none, advise categoryChanged`. Beside it the
/// story follows a flow, and keeps what that is told.
struct Story {
  private(set) var maker: ChangeMaker
  private(set) var published: [String] = []
  private(set) var changes: [Change] = []
  /// What the flow was told; it ends with the first `destroy`.
  private(set) var told: [String] = []

  private let families: [AddressFamily]
  private let flow: (aim: Scene.Aim, family: AddressFamily)
  private var tracker: FlowTracker?
  private var scene = Scene()
  private var deadline: Instant?
  private var now = Instant(milliseconds: 0)
  private var isUnknown = false
  private var hasStarted = false

  init(
    _ families: [AddressFamily] = [.ipv4], flow aim: Scene.Aim = .elsewhere,
    policy: InvalidationPolicy = InvalidationPolicy(), restored: Snapshot? = nil
  ) {
    self.families = families
    self.flow = (aim, families.last ?? .ipv4)
    self.maker = ChangeMaker(restored: restored, policy: policy)
  }

  /// What a whole history publishes.
  static func play(
    _ script: String, _ families: [AddressFamily] = [.ipv4],
    policy: InvalidationPolicy = InvalidationPolicy(), restored: Snapshot? = nil
  ) -> [String] {
    var story = Story(families, policy: policy, restored: restored)
    story.play(script)
    return story.published
  }

  /// What a flow is told in a whole history.
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

  // MARK: - Entries

  private mutating func enter(_ words: ArraySlice<Substring>) {
    if words.first == "?" {
      self.isUnknown = true
      self.step(.kernelLost("no netlink"))
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
    let events = before + scene.events(since: self.scene) + after
    self.scene = scene
    if let slept {
      self.step(.resumed(slept))
    } else if self.isUnknown {
      self.isUnknown = false
      self.step(.kernelBack)
    } else {
      self.step(self.hasStarted ? .events(events) : .start)
    }
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
          place.link.host[family] = 8
          place.formerHosts[family] = [7]
        }
      case "subnet2": place.link.metric += 1
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
    case "!route": link.routeRemoved(.ipv4) + link.routeAdded(.ipv4)
    default: nil
    }
  }

  // MARK: - Time

  private mutating func honourDeadlines(until end: Instant?) {
    while let due = [self.deadline, self.tracker?.deadline].compactMap({ $0 }).min(),
      end.map({ due <= $0 }) ?? true
    {
      self.now = due
      self.step(.timer)
      let next = [self.deadline, self.tracker?.deadline].compactMap { $0 }.min()
      guard next.map({ $0 > due }) ?? true else {
        Issue.record("a deadline that has come stays")
        return
      }
    }
  }

  private mutating func step(_ occasion: Occasion) {
    self.hasStarted = true
    let generation = self.maker.snapshot.generation
    let time = Timestamp(microseconds: Int64(self.now.milliseconds) * 1000)
    let reading =
      self.isUnknown ? ChangeMaker.Reading(.unknown) : self.scene.reading(for: self.maker)
    let step = self.maker.update(to: reading, on: occasion, at: self.now, time: time)
    self.deadline = step.deadline
    self.tellFlow(step, occasion)

    #expect(
      step.changes.map(\.generation) == step.changes.indices.map { generation + UInt64($0) + 1 })
    guard !step.changes.isEmpty else { return }
    self.changes += step.changes
    self.published.append(
      "\(self.now.text) \(step.changes.map(\.text).joined(separator: ", "))")
  }

  private mutating func tellFlow(_ step: ChangeMaker.Step, _ occasion: Occasion) {
    let (aim, family) = self.flow
    guard var tracker = self.tracker else {
      // It is made when the story begins, and not again.
      guard self.told.isEmpty, !self.isUnknown else { return }
      let reading = self.scene.reading(of: nil, from: nil, to: aim, family)
      self.tracker = FlowTracker(
        Flow(Destination(.unspecified(family)), local: reading.path.source), on: reading.path,
        network: reading.network)
      return
    }
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    let reading =
      self.isUnknown
      ? FlowReading(.unknown)
      : self.scene.reading(of: tracker.path, from: tracker.source, to: aim, family)
    let verdict = tracker.update(
      to: reading, .init(categoryChange: step.categoryChange, slept: slept),
      policy: self.maker.policy, at: self.now)
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

extension Change {
  fileprivate var text: String {
    switch self {
    case .transition(let transition):
      "\(transition.from)>\(transition.to)" + (transition.bounced ? " bounced" : "")
    case .path: "path"
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
