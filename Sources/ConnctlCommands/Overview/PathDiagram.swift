import Connectivity
import ConnectivityProtocol

/// The path of a family's traffic, hop by hop: `host ─ vlan10 ─ eth0 ─ 192.0.2.1 ─ internet`. A `?`
/// marks a link that is a guess.
struct PathDiagram {
  /// The hops, beginning with this host.
  private(set) var stations: [String]
  /// The index of the hop after which the path is interrupted.
  private(set) var gap: Int?

  /// - Parameter links: All of connd's links. Their states show where the path is interrupted.
  init(_ path: KernelPath, links: [Connectivity_V1_Link]) {
    let names = path.chain.map(\.name)
    let certain = names.count - path.guessedLinks
    self.stations =
      ["host"] + names.enumerated().map { place, name in place < certain ? name : "\(name)?" }
    if let gateway = path.gateway { self.stations.append(gateway.description) }
    self.stations.append("internet")
    switch path.status {
    case .satisfied: self.gap = nil
    case .requiresConnection where path.reason == .noSourceAddress: self.gap = 0
    case .requiresConnection, .unsatisfied, .unknown:
      let down = Set(links.filter { $0.state != .up && $0.state != .unspecified }.map(\.name))
      self.gap = names.firstIndex(where: down.contains).map { $0 + 1 } ?? names.count
    }
  }

  /// Draws the path, if possible within the width. Hops in the middle of the stack are omitted
  /// first, then the host.
  func line(_ glyphs: Glyphs, width: Int, ink: TextStyle) -> Line {
    var chain = self
    var line = chain.drawn(glyphs, ink)
    while line.width > width, chain.elide(glyphs) { line = chain.drawn(glyphs, ink) }
    if line.width > width, chain.gap != 0 {
      chain.stations.removeFirst()
      chain.gap? -= 1
      line = chain.drawn(glyphs, ink)
    }
    return line
  }

  private func drawn(_ glyphs: Glyphs, _ ink: TextStyle) -> Line {
    var line = Line(glyphs)
    for (place, station) in self.stations.enumerated() {
      line.append(station)
      guard place < self.stations.count - 1 else { break }
      let isGap = place == self.gap
      line.append(" \(isGap ? glyphs.gap : glyphs.line) ", isGap ? .bad : ink)
    }
    return line
  }

  /// Replaces one more hop by an ellipsis, between the first link and the last two hops. Returns
  /// whether there was such a hop.
  private mutating func elide(_ glyphs: Glyphs) -> Bool {
    let (first, last) = (2, self.stations.count - 3)
    guard first <= last, self.stations[first...last] != [glyphs.ellipsis] else { return false }
    let isMarked = self.stations[first] == glyphs.ellipsis
    let count = isMarked ? 2 : 1
    self.stations.replaceSubrange(first..<first + count, with: [glyphs.ellipsis])
    if let gap, gap >= first { self.gap = max(first, gap - count + 1) }
    return true
  }
}
