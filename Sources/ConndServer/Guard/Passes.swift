import Connectivity
import DequeModule

/// The looks at flows that are due, the oldest first. Flows are many, and each look is taken in parts.
struct Passes {
  /// One look at all flows, of which a part may still be to come.
  struct Pass {
    fileprivate(set) var number: UInt64
    fileprivate(set) var occasion: Occasion
    fileprivate(set) var circumstances: FlowTracker.Circumstances
    fileprivate(set) var remaining: ArraySlice<Destination>
    /// How many destinations are looked up before the kernel's next message is; it may be one that everybody waits for. Few at
    /// first: what belongs to one event comes in several messages, shortly after each other.
    private var part = 4
    private static let largestPart = 32

    fileprivate init(
      number: UInt64, occasion: Occasion, circumstances: FlowTracker.Circumstances,
      remaining: ArraySlice<Destination>
    ) {
      self.number = number
      self.occasion = occasion
      self.circumstances = circumstances
      self.remaining = remaining
    }

    mutating func takePart() -> ArraySlice<Destination> {
      let part = self.remaining.prefix(self.part)
      self.remaining = self.remaining.dropFirst(part.count)
      self.part = min(2 * self.part, Self.largestPart)
      return part
    }
  }

  private var waiting: Deque<Pass> = []
  /// The number of the last one that was due.
  private(set) var last: UInt64 = 0

  /// How many wait for their turn.
  private static let most = 8

  var isEmpty: Bool { self.waiting.isEmpty }
  var first: Pass? { self.waiting.first }

  /// A look at these flows is due.
  mutating func append(
    _ occasion: Occasion, _ circumstances: FlowTracker.Circumstances,
    _ destinations: ArraySlice<Destination>
  ) {
    self.last += 1
    self.waiting.append(
      Pass(
        number: self.last, occasion: occasion, circumstances: circumstances,
        remaining: destinations))
  }

  /// A look at all flows is due. One that has not begun yet sees what is true then: it serves both occasions. What happened in
  /// between is kept apart as long as there is not too much of it.
  mutating func append(
    _ occasion: Occasion, _ circumstances: FlowTracker.Circumstances,
    all destinations: ArraySlice<Destination>
  ) {
    guard let last = self.waiting.indices.last, last > 0,
      last >= Self.most
        || self.waiting[last].circumstances == .init() && circumstances == .init()
    else { return self.append(occasion, circumstances, destinations) }
    self.last += 1
    self.waiting[last].number = self.last
    self.waiting[last].occasion = self.waiting[last].occasion.joined(with: occasion)
    self.waiting[last].circumstances.join(circumstances)
    self.waiting[last].remaining = destinations
  }

  /// The first has come so far.
  mutating func goOn(with pass: Pass) {
    if pass.remaining.isEmpty { self.waiting.removeFirst() } else { self.waiting[0] = pass }
  }

  /// What happened to a flow that is looked at in the first one.
  func circumstances(of flow: GuardedFlow, in pass: Pass) -> FlowTracker.Circumstances {
    var circumstances = flow.lastPass < pass.number ? pass.circumstances : .init()
    // The reading is of now: it shows already what looks that wait for their turn are about.
    for later in self.waiting where flow.lastPass < later.number {
      circumstances.successors.formUnion(later.circumstances.successors)
    }
    return circumstances
  }
}

extension Occasion {
  /// More messages than this are not kept for the sake of the cause.
  private static let mostEvents = 4096

  fileprivate func joined(with other: Occasion) -> Occasion {
    guard case .events(let events) = self, case .events(let others) = other,
      events.count < Self.mostEvents
    else { return other }
    return .events(events + others)
  }
}
