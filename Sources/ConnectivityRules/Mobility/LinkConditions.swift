package import Connectivity

/// The conditions of all links: the ``LinkTrouble`` of each, by link index.
///
/// Implements rules Q5 and Q6.
package struct LinkConditions: Hashable, Sendable {
  /// The maximum number of links with a ``LinkTrouble``. No machine uses more links at a time.
  package static let maxLinks = 64

  private var links: [UInt32: LinkTrouble] = [:]

  package init() {}

  /// The reports for clients, by link index.
  package var reports: [UInt32: LinkTrouble.Report] { self.links.mapValues(\.report) }

  /// Returns the users for whom the quality of some link differs from earlier reports, or `nil` if
  /// it may differ for all users.
  package func users(differingFrom former: [UInt32: LinkTrouble.Report]) -> Set<UInt32>? {
    let reports = self.reports
    var users: Set<UInt32> = []
    for link in Set(former.keys).union(reports.keys) {
      guard
        let changed = LinkTrouble.Report.changes(former[link] ?? .none, reports[link] ?? .none)
      else { return nil }
      users.formUnion(changed)
    }
    return users
  }

  /// When a quality changes without new input, or `nil` if none does.
  package var deadline: Instant? { self.links.values.compactMap(\.deadline).min() }

  /// Returns the quality of a path for a user's traffic: that of its worst link.
  package func quality(of chain: [KernelPath.Link], for user: UInt32) -> LinkQuality {
    if self.links.isEmpty { return .unknown }
    let qualities = Set(chain.compactMap { self.links[$0.index]?.report.quality(for: user) })
    return [.minimal, .moderate, .good].first(where: qualities.contains) ?? .unknown
  }

  /// Returns the evidence for the quality of a path, as text for people.
  package func reasons(of chain: [KernelPath.Link], for user: UInt32) -> [String] {
    chain.flatMap { self.links[$0.index]?.reasons(for: user, on: $0.name) ?? [] }
  }

  /// Returns the names of the links of a path on which the driver has reported trouble lately.
  package func confirmedLinks(of chain: [KernelPath.Link]) -> [String] {
    chain.filter { self.links[$0.index]?.isConfirmed ?? false }.map(\.name)
  }

  package mutating func handle(_ input: LinkTrouble.Input, on link: UInt32, at now: Instant) {
    if self.links[link] == nil, self.links.count >= Self.maxLinks { self.makeRoom(at: now) }
    guard self.links.count < Self.maxLinks || self.links[link] != nil else { return }
    var trouble = self.links[link] ?? LinkTrouble()
    trouble.handle(input, at: now)
    self.links[link] = trouble.isEmpty ? nil : trouble
  }

  /// Forgets the link with the oldest reports of users, unless something has expired. Links with
  /// other evidence stay.
  private mutating func makeRoom(at now: Instant) {
    self.expire(at: now)
    guard self.links.count >= Self.maxLinks else { return }
    let reported = self.links.compactMap { link, trouble in trouble.lastReport.map { ($0, link) } }
    if let oldest = reported.min(by: <) { self.links[oldest.1] = nil }
  }

  /// Drops everything that has expired.
  package mutating func expire(at now: Instant) {
    for (link, var trouble) in self.links {
      trouble.expire(at: now)
      self.links[link] = trouble.isEmpty ? nil : trouble
    }
  }

  /// Updates the links' conditions from kernel messages.
  ///
  /// - Parameter now: Evaluated only for a signal, because recordings contain each reading of the
  ///   clock.
  package mutating func note(_ events: [KernelEvent], at now: @autoclosure () -> Instant) {
    for event in events {
      switch event {
      case .signal(let change): self.handle(.signal(change.kind), on: change.link, at: now())
      case .wireless(let change): self.links[change.link] = nil
      case .link(let link) where link.hasReliableState && link.state != .up:
        self.links[link.index] = nil
      case .linkRemoved(let link): self.links[link.index] = nil
      case .addressRemoved(let address): self.links[address.link] = nil
      default: break
      }
    }
  }
}
