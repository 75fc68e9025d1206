import Connectivity
import DequeModule

/// The looks at flows that are due, the oldest first. Flows are many, and each look is taken in parts.
struct Passes {
  /// One look at flows, of which a part may still be to come.
  struct Pass {
    /// In the order in which they became due, from 1 on.
    fileprivate(set) var number: UInt64 = 0
    fileprivate(set) var occasion: Occasion
    fileprivate(set) var circumstances: FlowTracker.Circumstances
    /// The hardware addresses that gateways were first told to have.
    fileprivate(set) var learnt: [Gateway: [UInt8]]
    fileprivate(set) var remaining: ArraySlice<Destination>
    /// How many destinations are looked up before the kernel's next message is; it may be one that everybody waits for. Few at
    /// first: what belongs to one event comes in several messages, shortly after each other.
    private var part = 4
    private static let largestPart = 32

    init(
      _ occasion: Occasion, _ circumstances: FlowTracker.Circumstances = .init(),
      learnt: [Gateway: [UInt8]] = [:], of destinations: ArraySlice<Destination>
    ) {
      self.occasion = occasion
      self.circumstances = circumstances
      self.learnt = learnt
      self.remaining = destinations
    }

    mutating func takePart() -> ArraySlice<Destination> {
      let part = self.remaining.prefix(self.part)
      self.remaining = self.remaining.dropFirst(part.count)
      self.part = min(2 * self.part, Self.largestPart)
      return part
    }

    /// Whether more happened than the reading itself shows.
    fileprivate var hasNews: Bool { self.circumstances != .init() || !self.learnt.isEmpty }

    fileprivate mutating func join(_ later: Pass) {
      self.occasion = self.occasion.joined(with: later.occasion)
      self.circumstances.join(later.circumstances)
      self.learnt.merge(later.learnt) { first, _ in first }
      self.remaining = later.remaining
    }
  }

  private var waiting: Deque<Pass> = []
  /// The number of the last one that was due.
  private(set) var last: UInt64 = 0

  /// How many wait for their turn.
  private static let most = 8

  var isEmpty: Bool { self.waiting.isEmpty }
  var first: Pass? { self.waiting.first }

  /// A look is due. One that has not begun yet sees what is true then: it serves both occasions. What happened in between is
  /// kept apart as long as there is not too much of it.
  mutating func append(_ pass: Pass) {
    self.last += 1
    if let index = self.waiting.indices.last, index > 0,
      index >= Self.most || !self.waiting[index].hasNews && !pass.hasNews
    {
      self.waiting[index].join(pass)
    } else {
      self.waiting.append(pass)
    }
    self.waiting[self.waiting.count - 1].number = self.last
  }

  /// The first has come so far.
  mutating func goOn(with pass: Pass) {
    if pass.remaining.isEmpty { self.waiting.removeFirst() } else { self.waiting[0] = pass }
  }

  /// What a gateway was first told to be after a pass was due. A reading is of now: it shows already what looks that wait for
  /// their turn are about.
  func hardwareAddress(of gateway: Gateway, firstToldAfter number: UInt64) -> [UInt8]? {
    for pass in self.waiting where pass.number > number {
      if let address = pass.learnt[gateway] { return address }
    }
    return nil
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
