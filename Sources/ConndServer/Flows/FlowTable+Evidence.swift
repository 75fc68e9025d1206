import Connectivity
import ConnectivityRules

// Queries about the sockets of guarded flows, and their consequences (E1 to E3).
extension FlowTable {
  /// Returns the current instant.
  typealias Clock = () -> Instant

  /// Queries the sockets of connections in one batch, and skips `nil`. Also returns the time after
  /// the query. Silence is measured until then, because earlier lookups may have waited for the
  /// kernel's locks. Each report's uncertainty covers pauses of the thread.
  static func reports(
    on connections: [Destination?], _ reader: FlowReader, at now: Instant, _ clock: Clock?
  ) -> (reports: [SocketReport?], time: Instant) {
    var reports: [SocketReport?] = connections.map { _ in nil }
    let places = connections.indices.filter { connections[$0] != nil }
    guard !places.isEmpty else { return (reports, now) }
    let before = clock?() ?? now
    let answers = reader.view.socketReports(on: connections.compactMap { $0 })
    let after = clock?() ?? now
    for (place, answer) in zip(places, answers) {
      reports[place] = answer
      reports[place]?.uncertainty = before.duration(to: after)
    }
    return (reports, after)
  }

  /// The maximum number of flows to query before kernel messages are read again. These queries take
  /// about half a millisecond.
  private static let maxQuestions = 256

  /// Queries the sockets of the inquiry's next flows, and watches flows with unacknowledged data
  /// (E2). Returns notifications: the client of an idle flow must ask its peer, and a flow that has
  /// been silent for two timeouts is in doubt.
  mutating func ask(
    _ reader: FlowReader, at now: Instant, _ clock: Clock?
  ) -> [FlowNotification] {
    guard self.inquiry.isRunning else { return [] }
    var notifications: [FlowNotification] = []
    let (keys, change) = self.inquiry.take(Self.maxQuestions)
    let flows = keys.compactMap { self.entries[$0] }
      .filter { $0.takeIsTouched(by: change, isProof: { self.isLookupProof(reader) }) }
    let (reports, now) = Self.reports(on: flows.map(\.tracker.question), reader, at: now, clock)
    for (flow, report) in zip(flows, reports) {
      guard let report else { continue }
      let actions = flow.machine.handle(
        .inquiry(report, change: change.time, path: flow.reported), at: now)
      guard actions.contains(.watch) else { continue }
      if let advice = actions.lazy.compactMap(\.verdict).first {
        let event = FlowEvent.invalidation(advice, self.inquiry.cause, flow.reported)
        notifications.append(FlowNotification(key: flow.key, event: event))
      } else if actions.contains(.askPeer) {
        notifications.append(
          FlowNotification(key: flow.key, event: .path(flow.reported), askedUntil: .endOfQuestion))
      }
      flow.examinedCause = self.inquiry.cause
      self.note(flow)
    }
    return notifications
  }
}

extension FlowReader {
  /// Whether the flow's address is gone, and its original link is gone or down.
  func isGone(_ reading: FlowReading, madeOn path: KernelPath) throws(KernelUnavailable) -> Bool {
    guard reading.isSourceGone, let link = path.chain.first?.index else { return false }
    let isGone = try self.view.unlessRefused { () throws(KernelUnavailable) in
      try self.view.link(link).map { $0.link.state == .down } ?? true
    }
    return isGone ?? false
  }
}
