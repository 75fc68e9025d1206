import Connectivity
import Testing

@testable import ConnectivityRules

/// A timeline in one line of text, played to a transition maker in virtual time.
///
///     0s wifi | 1s - | 1.2s wifi | 2s wifi! | 3s wifi / wired | 4s ?
///
/// Each entry is an instant and what the reading at it shows: the IPv4 path, and after a slash the
/// IPv6 path (without a slash there is none). `-` is no route, `?` a kernel that cannot be asked. A
/// path's name may be followed by
/// - `~`: its link has no carrier;
/// - `#`: the kernel counts one more carrier loss since the link was created;
/// - `'`: it has another source address of the same subnet;
/// - `!`, `!link`, `!route`: the batch also has messages that the path's source address, link or
///   default route was lost and came back.
///
/// An entry may end in `+overrun` or `+noise`, or begin with `timer`. The first reading is the one
/// at the start.
///
/// The published changes have the same notation: `0s unknown>wifi | 2s wifi>wifi bounced | 3s
/// path`.
struct Timeline {
  var maker: TransitionDetector
  private(set) var published: [String] = []
  private(set) var changes: [Change] = []
  private var now = Instant(milliseconds: 0)
  private var isUnknown = false
  private var hasStarted = false

  init(preferred: AddressFamily = .ipv4, restored: Snapshot? = nil) {
    self.maker = TransitionDetector(restored: restored, preferred: preferred)
  }

  /// The changes that a whole timeline publishes.
  static func play(_ script: String, preferred: AddressFamily = .ipv4) -> String {
    var timeline = Timeline(preferred: preferred)
    timeline.play(script)
    return timeline.published.joined(separator: " | ")
  }

  mutating func play(_ script: String) {
    for entry in script.split(separator: "|") {
      let words = entry.split(separator: " ")
      guard let word = words.first, let instant = Self.instant(word) else {
        Issue.record("not an instant: \(entry)")
        return
      }
      self.now = instant
      self.enter(words.dropFirst().map(String.init))
    }
  }

  /// One reading, after these messages.
  mutating func read(_ observation: Observation, _ events: [KernelEvent]) {
    self.step(observation, self.hasStarted ? .events(events) : .start)
  }

  // MARK: - Entries

  private mutating func enter(_ words: [String]) {
    if words.first == "?" {
      self.isUnknown = true
      self.step(.unknown, .kernelLost("no netlink"))
      return
    }
    var events: [KernelEvent] = []
    var observation = Observation([])
    var family = AddressFamily.ipv4
    var isTimer = false
    for word in words {
      switch word {
      case "/": family = .ipv6
      case "-": break
      case "timer": isTimer = true
      case "+overrun": events.append(.overrun)
      case "+noise": events.append(.linkRemoved(TestLink.noise.link))
      default:
        guard let (link, evidence) = Self.path(word, family) else {
          Issue.record("not a path: \(word)")
          return
        }
        events += evidence
        observation[family] = link.observed(family) ?? observation[family]
      }
    }
    if self.isUnknown {
      self.isUnknown = false
      self.step(observation, .kernelBack)
    } else if isTimer {
      self.step(observation, .timer)
    } else {
      self.read(observation, events)
    }
  }

  private static func path(_ word: String, _ family: AddressFamily) -> (TestLink, [KernelEvent])? {
    let (name, kind) =
      word.firstIndex(of: "!").map { (word[..<$0], String(word[$0...])) } ?? (word[...], nil)
    let links: [Substring: TestLink] = [
      "wifi": .wifi, "wifi2": .wifi2, "wired": .wired, "cellular": .cellular,
    ]
    guard var link = links[name.prefix { $0.isLetter || $0.isNumber }] else { return nil }
    link.carrierDownCount = UInt32(name.count { $0 == "#" })
    if name.hasSuffix("~") { link = link.withoutCarrier }
    if name.hasSuffix("'") { link.host[family] = 8 }
    switch kind {
    case nil: return (link, [])
    case "!": return (link, link.removed(family) + link.added(family))
    case "!link": return (link, [.link(link.withoutCarrier.link), .link(link.link)])
    case "!route": return (link, link.routeRemoved(family) + link.routeAdded(family))
    default: return nil
    }
  }

  private mutating func step(_ observation: Observation, _ trigger: ReadTrigger) {
    self.hasStarted = true
    let time = Timestamp(microseconds: Int64(self.now.milliseconds) * 1000)
    guard let change = self.maker.update(to: observation, on: trigger, time: time) else { return }
    self.changes.append(change)
    self.published.append("\(self.now.text) \(Self.text(change))")
  }

  // MARK: - Text

  private static func instant(_ text: Substring) -> Instant? {
    guard text.hasSuffix("s"), let seconds = Double(text.dropLast()) else { return nil }
    return Instant(milliseconds: Int((seconds * 1000).rounded()))
  }

  private static func text(_ change: Change) -> String {
    switch change {
    case .transition(let transition):
      "\(transition.from)>\(transition.to)" + (transition.bounced ? " bounced" : "")
    case .path: "path"
    case .invalidation: "invalidation"
    case .dns: "dns"
    }
  }
}
