import Connectivity
import ConnectivityClient

extension Style {
  /// A line of `connctl watch` for people; none for what concerns the connection and not the network.
  func event(_ event: StatusEvent, now: Timestamp) -> [String] {
    switch event {
    case .snapshot(let snapshot):
      self.row(now, Text("now", .faint), snapshot.status.headline)
    case .gap(let snapshot):
      self.row(now, Text("gap", .middling), "something was missed; now \(snapshot.status.headline)")
    case .change(.transition(let transition)):
      self.row(transition.time, transition.headline, transition.details)
    case .change(.path(let change)):
      self.row(change.time, "path", "\(change.snapshot.status.families): \(change.cause.words)")
    case .change(.invalidation(let invalidation)):
      self.row(invalidation.time, invalidation.headline, invalidation.details)
    case .disconnected, .resumed:
      []
    }
  }

  /// A line of `connctl history` for people.
  func history(_ entry: HistoryEntry) -> [String] {
    switch entry {
    case .transition(let transition):
      self.row(transition.time, transition.headline, transition.details, dated: true)
    case .invalidation(let invalidation):
      // Here the path event that it may come from does not stand above it.
      self.row(
        invalidation.time, invalidation.headline,
        "\(invalidation.details); \(invalidation.cause.words)", dated: true)
    }
  }

  /// A line of `connctl guard` for people, for a flow to `destination`.
  func flow(_ event: FlowEvent, destination: IPAddress, now: Timestamp) -> [String] {
    switch event {
    case .path(let path):
      self.row(now, "path", "\(destination): \(path.words)")
    case .invalidation(let invalidation):
      self.row(now, invalidation.headline, invalidation.details)
    case .refused:
      []
    }
  }

  private func row(
    _ time: Timestamp, _ what: Text, _ details: String, dated: Bool = false
  ) -> [String] {
    let local = self.localTime(time)
    let time = dated ? Text.tied(local.date, local.time) : local.time
    // As wide as “cellular → wired”, so that a stream's lines, each printed alone, stand below each other.
    var columns = Columns(minimum: [12, 16])
    columns.add(Text(time, .faint), what, Text(details))
    return columns.lines(self)
  }
}

extension Transition {
  fileprivate var headline: Text {
    if self.from == self.to { return Text("\(self.to.rawValue) bounced", .middling) }
    return Text("\(self.from.rawValue) → \(self.to.rawValue)", self.to.ink)
  }

  fileprivate var details: String {
    var words = self.snapshot.status.interface.map { Text.tied("via", $0) + ": " } ?? ""
    words += self.cause.words
    if self.bounced && self.from != self.to { words += ", after a bounce" }
    return words
  }
}

extension Invalidation {
  fileprivate var headline: Text { Text(self.severity.rawValue, self.severity.ink) }

  fileprivate var details: String { "\(self.scope.words): \(self.reason.words)" }
}

extension FlowInvalidation {
  fileprivate var headline: Text { Text(self.severity.rawValue, self.severity.ink) }

  fileprivate var details: String {
    let now = self.path.map { "; now \($0.words)" } ?? ""
    return "\(self.reason.words): \(self.cause.words)\(now)"
  }
}

extension Path {
  /// `satisfied, wlan0 from 192.0.2.7 via 192.0.2.1, expensive`
  fileprivate var words: String {
    let route = [self.interface ?? "", self.details].filter { !$0.isEmpty }
    let words = [self.status.words] + (route.isEmpty ? [] : [route.joined(separator: " ")])
    return words.joined(separator: ", ") + self.costs
  }
}

extension Status {
  fileprivate var headline: String { self.summary + self.costs }

  /// `ipv4 wlan0 from 192.0.2.7, ipv6 unsatisfied`
  fileprivate var families: String {
    AddressFamily.allCases.map { family in
      let path = self[family]
      var words = [family.rawValue]
      if path.status != .satisfied { words.append(path.status.words) }
      if let interface = path.interface { words.append(interface) }
      if let source = path.source { words.append(Text.tied("from", source.description)) }
      return words.joined(separator: " ")
    }.joined(separator: ", ")
  }
}
