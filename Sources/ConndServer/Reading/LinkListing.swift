import Connectivity
import ConnectivityRules

/// A listing of all links, built in parts. Kernel messages are read between the parts, because a
/// machine with containers may have thousands of links.
struct LinkListing {
  /// The number of links per part. A part takes about a tenth of a millisecond.
  private static let part = 16
  /// The maximum number of tunnels for which the lower link is looked up. A hub may have many more
  /// tunnels.
  private static let maxTunnels = 64

  private let observed: Observation
  private let next: LinkParts
  private var isRead = false
  private var links: [LinkFacts] = []
  private var names: [UInt32: String] = [:]
  private var addresses: [UInt32: [Address]] = [:]
  /// The number of links described, and the number of tunnels examined.
  private var count = 0
  private var tunnels = 0
  private var described: [LinkReport] = []

  init(_ queries: KernelQueries) throws(KernelUnavailable) {
    self.observed = try queries.reader.observation(queries.view)
    self.next = try queries.kernel.beginListing()
  }

  /// Reads or describes the next links.
  ///
  /// - Returns: All links, sorted by `rank`, or `nil` while there are more.
  mutating func advance(_ queries: KernelQueries) throws(KernelUnavailable) -> [LinkReport]? {
    guard self.isRead else {
      try self.read(queries)
      return nil
    }
    for facts in self.links.dropFirst(self.count).prefix(Self.part) {
      self.described.append(try self.describe(facts, queries))
      self.count += 1
    }
    guard self.count == self.links.count else { return nil }
    // Sorts indices, because a report is large.
    let ranks = self.described.map(\.rank)
    return ranks.indices.sorted { ranks[$0] < ranks[$1] }.map { self.described[$0] }
  }

  private mutating func read(_ queries: KernelQueries) throws(KernelUnavailable) {
    switch try self.next() {
    case .restarted:
      self.links = []
    case .links(let links, let isLast):
      for facts in links { self.links.append(try queries.view.describe(facts)) }
      guard isLast else { return }
      self.isRead = true
      self.names = Dictionary(self.links.map { ($0.link.index, $0.link.name) }) { first, _ in
        first
      }
      self.addresses = Dictionary(grouping: try queries.kernel.addresses(), by: \.link)
      self.described.reserveCapacity(self.links.count)
    }
  }

  private mutating func describe(
    _ facts: LinkFacts, _ queries: KernelQueries
  ) throws(KernelUnavailable) -> LinkReport {
    let (index, names) = (facts.link.index, self.names)
    var report = try queries.describe(facts, self.addresses[index] ?? [])
    report.master = facts.link.master.flatMap { names[$0] }
    if case .links(let below) = facts.below,
      let lower = below.lazy.compactMap({ names[$0] }).first
    {
      report.lower = LinkReport.Lower(name: lower)
    } else if facts.isTunnel, let below = self.observed.link(below: index) {
      report.lower = below
    } else if facts.isTunnel, self.tunnels < Self.maxTunnels {
      self.tunnels += 1
      if let underlay = try queries.reader.underlay(of: facts, queries.view),
        let lower = names[underlay.link]
      {
        report.lower = LinkReport.Lower(name: lower, isGuess: underlay.isGuess)
      }
    }
    let paths: [(AddressFamily, KernelPath)] = [
      (.ipv4, self.observed.ipv4.path), (.ipv6, self.observed.ipv6.path),
    ]
    for (family, path) in paths where path.chain.first?.index == index {
      report.defaultFamilies.insert(family)
    }
    return report
  }
}

/// A listing in progress and the clients that wait for it.
struct PendingListing {
  typealias Answer = KernelAnswer<[LinkReport]>

  var listing: LinkListing
  var replies: [Reply<Answer>]
  /// Queries that arrived after the listing began. They need another listing with later changes.
  var later: [KernelQuery] = []
}
