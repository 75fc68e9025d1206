import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Logging
import Netlink
import Synchronization
import Systemd

@testable import ConndServer

/// The monitor loop over a kernel that a test writes, with its own clock. Its output is given in
/// words.
///
/// All flows lead to 203.0.113.9. At first everything goes over eth0, with metric 100.
struct TestLoop {
  let kernel = ModelKernel()
  let clock = TestClock()
  let mailbox = TestMailbox()
  let dns = ModelSource()
  let modems = ModelSource()
  let metering = ModelSource()
  var loop: MonitorLoop

  init(overrideStore: OverrideStore? = nil) throws {
    self.kernel.addLink(2, "eth0")
    try self.kernel.lead(
      "0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"), metric: 100)
    let (kernel, store) = (self.kernel, Store())
    self.loop = MonitorLoop(
      Configuration(), store: store, publisher: StorePublisher(store: store),
      statistics: Statistics(), notifier: .inactive, clock: self.clock,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      sources: [self.dns, self.modems, self.metering], costs: overrideStore?.load() ?? .init(),
      overrideStore: overrideStore
    ) { (watched) throws(KernelUnavailable) in
      try kernel.watch(watched)
      return kernel
    }
    self.loop.guards.admit(self.mailbox)
  }

  /// Opens the kernel, if possible.
  static func started(_ prepare: (ModelKernel) throws -> Void = { _ in }) throws -> TestLoop {
    var loop = try TestLoop()
    try prepare(loop.kernel)
    loop.loop.start()
    return loop
  }

  /// Lets containers come and go until connd stops listening to new links.
  mutating func becomeDeaf() {
    var link = Link(index: 100, name: "veth100")
    link.isNew = true
    for _ in 0..<2000 where self.kernel.watched.unheard == nil { _ = self.tell([.link(link)]) }
  }

  /// Guards this many flows, each to its own destination.
  mutating func guardFlows(_ count: UInt32) throws {
    for id in 1...count {
      let remote = try IPAddress(spelt: "198.18.\(id >> 8).\(id & 0xFF)")
      let key = FlowTable.Key(mailbox: self.mailbox.number, id: UInt64(id))
      self.loop.guards.enqueue(.add(.init(key: key, flow: Flow(Destination(remote)))))
    }
    _ = self.turn()
  }

  /// Guards a flow.
  ///
  /// - Returns: the answer to the client, in words.
  mutating func guardFlow(
    _ id: UInt64, local: String? = nil, port: UInt16? = nil, boundTo link: UInt32? = nil,
    known: KernelPath? = nil, isExisting: Bool = false, question: PeerQuestion = .none
  ) throws -> [String] {
    var remote = Destination(try IPAddress(spelt: "203.0.113.9"), outLink: link)
    remote.transport = port.map { Transport(6, localPort: $0, remotePort: 443) }
    let flow = Flow(
      remote, local: try local.map { try IPAddress(spelt: $0) }, question: question)
    self.loop.guards.enqueue(
      .add(
        .init(
          key: .init(mailbox: self.mailbox.number, id: id), flow: flow, knownPath: known,
          isExisting: isExisting)))
    repeat {
      for work in [.messages, .read] as [Work] { self.loop.perform(work, on: .init()) }
    } while self.loop.mustRead
    self.loop.perform(.requests, on: .init())
    return self.mailbox.take()
  }

  /// Lets the kernel report events; by default a rule change, for tests where any event will do.
  mutating func tell(_ events: [KernelEvent] = [.rule(.ipv4)]) -> [String] {
    self.kernel.untold.append { events }
    return self.turn()
  }

  /// Handles all pending work.
  mutating func turn(
    after pause: Duration = .zero, sources: SourceSet = [], slept: Duration? = nil
  ) -> [String] {
    self.clock.instant = self.clock.instant.advanced(by: pause)
    var woken = Waiter.Woken(sources: sources, slept: slept)
    repeat {
      woken.hasMessages = !self.kernel.untold.isEmpty
      self.loop.turn(on: woken)
      woken = Waiter.Woken()
    } while self.loop.isBusy
    return self.mailbox.take()
  }

  /// Answers a request about costs once its effect is published.
  mutating func answer(
    _ request: CostRequest
  ) -> Result<CostRequest.Answer, CostRequest.Refusal> {
    let answer = self.loop.answer(request)
    self.loop.perform(.read, on: .init())
    return answer
  }

  /// The published invalidations of channels.
  var invalidations: [String] {
    self.loop.feed.store.past.compactMap { published in
      guard case .invalidation(let told) = published.change else { return nil }
      return "\(told.severity.rawValue) \(told.reason.rawValue)"
    }
  }

  func count(_ name: String, _ kind: String = "") -> UInt64 {
    self.loop.feed.statistics.counted.first { $0.name == name && $0.kind == kind }?.value ?? 0
  }
}

/// A clock that a test advances.
final class TestClock: MonitorClock {
  var instant = Instant(sinceStart: .zero)
  /// How far each look at the clock advances it.
  var tick = Duration.zero
  var now: Instant {
    self.instant = self.instant.advanced(by: self.tick)
    return self.instant
  }
  /// The thread's processor time, or `nil` if it always runs.
  var processorTime: Duration?
  var worked: Duration { self.processorTime ?? self.now.sinceStart }
  var wall = WallTime(microseconds: 0)
  var time: WallTime { self.wall }
}

/// Publishes changes, and stores nothing for the next run.
private struct StorePublisher: Publisher {
  let store: Store

  func publish(_ changes: [ConnectivityChange]) {
    self.store.publish(changes.map { Published($0) })
  }
}

/// The answers to a client: `1 path eth0`, `1 destroy betterPath`.
final class TestMailbox: FlowMailbox {
  let number: UInt64
  let account: Account
  private let messages = Mutex<[GuardMailbox.Message]>([])

  init(number: UInt64 = 1, account: Account = .unknown) {
    (self.number, self.account) = (number, account)
  }

  func post(_ messages: [GuardMailbox.Message]) { self.messages.withLock { $0 += messages } }
  func removed(_ flow: UInt64) {}
  func finish() {}

  func take() -> [String] {
    let messages = self.messages.withLock { messages in
      defer { messages = [] }
      return messages
    }
    return messages.map {
      "\($0.id) \(self.words($0.event))" + ($0.askedUntil == nil ? "" : ", ask")
    }
  }

  private func words(_ event: FlowEvent) -> String {
    switch event {
    case .betterPathGone(let path): return "better path gone \(path.interface ?? "none")"
    case .path(let path):
      let status = path.status == .satisfied ? [] : [path.status.rawValue]
      return (["path", path.interface ?? "none"] + status).joined(separator: " ")
    case .invalidation(let invalidation):
      let cause = invalidation.cause
      let late = cause.learntLate ? ["late", cause.interface ?? "none"] : []
      return ([invalidation.severity.rawValue, invalidation.reason.rawValue] + late)
        .joined(separator: " ")
    case .refused(let refusal): return "refused \(refusal.message)"
    }
  }
}

/// A source of facts of a test.
final class ModelSource: FactSource {
  let descriptors: [pollfd] = []
  var timeout: Duration?
  /// The facts that it returns next.
  var updates: [FactUpdate] = []
  /// The facts that arrive a moment after the start.
  var updatesOnceSettled: [FactUpdate]?
  var signalQualities: [String: UInt32] = [:]
  private(set) var searches = 0

  func process() -> [FactUpdate] {
    defer { self.updates = [] }
    return self.updates
  }

  func noteLinks() -> [FactUpdate] {
    self.searches += 1
    return self.process()
  }

  func settle(within time: Duration) {
    self.updates = self.updatesOnceSettled ?? self.updates
    self.updatesOnceSettled = nil
  }
}

extension SourceSet {
  // The sources of `TestLoop`.
  static let dns = SourceSet(index: 0)
  static let modems = SourceSet(index: 1)
  static let metering = SourceSet(index: 2)
}
