import Connectivity
import ConnectivityMonitor

/// Decides which connections of programs that know nothing of connd are ended, and when. A value
/// without a clock: callers pass the time in, and call ``listed(_:ways:at:)`` when ``deadline`` has
/// passed.
///
/// connd guards each connection that it has listed. A connection that connd declares lost is held,
/// because programs that try again at once would try the lost path again, and judged again by the
/// next list. It is ended once connd names another path to its peer.
///
/// Implements rules R1, R2 and R3.
struct Reaper: Sendable {
  typealias Instant = SuspendingClock.Instant

  struct Settings: Hashable, Sendable {
    /// How long a lost connection is held before it is judged again. A carrier that is lost for a
    /// second is back by then, and TCP goes on.
    var hold = Duration.seconds(2)
    /// How long a lost connection is held without another path to its peer.
    var patience = Duration.seconds(10)
  }

  enum Action: Hashable, Sendable {
    /// Have connd guard the connection.
    case guardFlow(FlowGuard.Flow, id: UInt64, madeOn: KernelPath?)
    case release(id: UInt64)
    /// Ask the peer by a keepalive probe (R3).
    case ask(ReapableConnection)
    case end(ReapableConnection, Loss)
  }

  /// Why a connection is ended.
  struct Loss: Hashable, Sendable {
    var reason: Invalidation.Reason
    /// The link that the connection was made on.
    var link: KernelPath.Link?
    /// The path of a new connection to the same peer, or `nil` without one.
    var way: KernelPath?
  }

  private enum State: Hashable, Sendable {
    case guarded(id: UInt64)
    /// Nothing more is done: connd refuses to guard it, or it was ended. One that could not be
    /// ended is not tried again.
    case left
    case held(since: Instant, Loss)
  }

  private struct Entry: Sendable {
    var connection: ReapableConnection
    var state: State
    /// The link of its own address, or else of the first path that connd reported.
    var link: KernelPath.Link?
  }

  /// By the sockets' numbers.
  private var entries: [UInt64: Entry] = [:]
  /// The socket of each guarded flow.
  private var cookies: [UInt64: UInt64] = [:]
  private var lastID: UInt64 = 0
  /// When the connections are listed again, because a program may have tried again meanwhile.
  private var next: Instant?
  private let settings: Settings

  /// How long after a loss packets may arrive that were under way, and the kernel's tick.
  private static let inFlight = Duration.milliseconds(50)

  init(_ settings: Settings = Settings()) { self.settings = settings }

  /// When the connections must be listed even without news, or `nil` if only news matter.
  var deadline: Instant? { self.next }

  private var held: [(connection: ReapableConnection, since: Instant, loss: Loss)] {
    self.entries.values.compactMap { entry in
      if case .held(let since, let loss) = entry.state {
        (entry.connection, since, loss)
      } else {
        nil
      }
    }
  }

  /// The peers of the held connections that are judged at this time.
  func peers(at now: Instant) -> Set<IPAddress> {
    Set(
      self.held.filter { $0.since.advanced(by: self.settings.hold) <= now }
        .map(\.connection.flow.remote))
  }

  /// Takes connd's list, which connd made after the last news.
  ///
  /// - Parameters:
  ///   - connections: The connections that may be ended.
  ///   - ways: The paths of new connections to ``peers(at:)``.
  ///   - now: When the list was requested.
  mutating func listed(
    _ connections: [ReapableConnection], ways: [IPAddress: KernelPath], at now: Instant
  ) -> [Action] {
    var actions: [Action] = []
    let listed = Dictionary(connections.map { ($0.cookie, $0) }) { first, _ in first }
    for (cookie, entry) in self.entries where listed[cookie] == nil {
      self.entries[cookie] = nil
      if case .guarded(let id) = entry.state { actions.append(self.release(id)) }
    }
    var hasEnded = false
    for connection in connections {
      guard let entry = self.entries[connection.cookie] else {
        actions.append(self.guardConnection(connection, link: connection.link))
        continue
      }
      self.entries[connection.cookie]?.connection = connection
      guard case .held(let since, var loss) = entry.state,
        since.advanced(by: self.settings.hold) <= now
      else { continue }
      guard Self.isStillLost(connection, loss, since: since, at: now) else {
        // It is back on its own path, and goes on.
        actions.append(self.guardConnection(connection, link: entry.link))
        continue
      }
      loss.way = ways[connection.flow.remote].flatMap { way in
        way.status == .satisfied && way.source != connection.flow.local ? way : nil
      }
      guard loss.way != nil || since.advanced(by: self.settings.patience) <= now else { continue }
      self.entries[connection.cookie]?.state = .left
      actions.append(.end(connection, loss))
      hasEnded = true
    }
    self.schedule(again: hasEnded, at: now)
    return actions
  }

  /// Takes connd's report about a flow.
  mutating func received(_ event: FlowEvent, id: UInt64, at now: Instant) -> [Action] {
    guard let cookie = self.cookies[id], var entry = self.entries[cookie] else { return [] }
    entry.link = entry.link ?? event.ownPath?.chain.first
    self.entries[cookie] = entry
    guard event.isLast else { return [] }
    self.cookies[id] = nil
    guard let reason = event.invalidation?.reason else {
      self.entries[cookie]?.state = .left
      return []
    }
    guard reason.isLoss else {
      // It goes on, and the next list has connd guard it again.
      self.entries[cookie] = nil
      return []
    }
    self.entries[cookie]?.state = .held(since: now, Loss(reason: reason, link: entry.link))
    self.schedule(again: false, at: now)
    return [.ask(entry.connection)]
  }

  /// connd asks for a sign of life of a flow's peer (E4).
  func asked(id: UInt64) -> [Action] {
    guard let cookie = self.cookies[id], let entry = self.entries[cookie] else { return [] }
    return [.ask(entry.connection)]
  }

  /// connd is gone, so that nothing is known. No connection is ended.
  mutating func lost() {
    for (cookie, entry) in self.entries {
      if case .held = entry.state { self.entries[cookie] = nil }
    }
    self.next = nil
  }

  /// connd has not listed the connections. Held ones are judged again.
  mutating func unlisted(at now: Instant) -> [Action] {
    self.next = self.held.isEmpty ? nil : now.advanced(by: self.settings.hold)
    return []
  }

  private mutating func guardConnection(
    _ connection: ReapableConnection, link: KernelPath.Link?
  ) -> Action {
    self.lastID += 1
    self.entries[connection.cookie] = Entry(
      connection: connection, state: .guarded(id: self.lastID), link: link)
    self.cookies[self.lastID] = connection.cookie
    return .guardFlow(connection.flow, id: self.lastID, madeOn: connection.madeOn)
  }

  private mutating func release(_ id: UInt64) -> Action {
    self.cookies[id] = nil
    return .release(id: id)
  }

  private mutating func schedule(again: Bool, at now: Instant) {
    let dues = self.held.map { held in
      let first = held.since.advanced(by: self.settings.hold)
      if first > now { return first }
      let (next, last) = (
        now.advanced(by: self.settings.hold), held.since.advanced(by: self.settings.patience)
      )
      return last > now ? min(next, last) : next
    }
    let after = again ? [now.advanced(by: self.settings.hold)] : []
    self.next = (dues + after).min()
  }

  /// Judges a held connection again. Whatever was heard from its peer since spares it. If its
  /// packets were lost without a sign in the routing tables, silence is the only evidence.
  private static func isStillLost(
    _ connection: ReapableConnection, _ loss: Loss, since: Instant, at now: Instant
  ) -> Bool {
    guard let silence = connection.silence else { return false }
    let isHeard = silence + Self.inFlight < since.duration(to: now)
    guard connection.isConnecting || !isHeard else { return false }
    return loss.reason == .silent || connection.reason?.isLoss == true
  }
}

extension Invalidation.Reason {
  /// Whether a connection that is destroyed for this reason carries nothing any more (R1).
  var isLoss: Bool {
    switch self {
    case .sourceAddressLost, .interfaceLost, .networkChanged, .silent: true
    case .categoryChanged, .betterPath, .policy, .resumed: false
    }
  }
}
