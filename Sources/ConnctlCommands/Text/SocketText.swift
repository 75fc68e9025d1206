import Connectivity

extension SocketTestimony {
  /// Returns `last heard 12 ms after the change` or `last heard 3.2 s before the change, 2 timeouts
  /// in a row`.
  func words(since reference: String) -> String {
    let isBefore = self.lastHeard < .zero
    let distance = isBefore ? .zero - self.lastHeard : self.lastHeard
    var words = "last heard \(distance.shortWords) \(isBefore ? "before" : "after") \(reference)"
    if self.timeouts > 0 {
      words += ", \(self.timeouts) timeout\(self.timeouts == 1 ? "" : "s") in a row"
    }
    return words
  }

  /// The text `last heard 12 ms ago, data is unacknowledged`.
  var wordsNow: String {
    var words = "last heard \((.zero - self.lastHeard).shortWords) ago"
    if self.timeouts > 0 {
      words += ", \(self.timeouts) timeout\(self.timeouts == 1 ? "" : "s") in a row"
    }
    return words + (self.hasUnacknowledgedData ? ", data is unacknowledged" : "")
  }
}

extension Duration {
  /// The text `12 ms` or `3.2 s`.
  fileprivate var shortWords: String {
    let (seconds, attoseconds) = self.components
    let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    guard milliseconds >= 1000 else { return "\(milliseconds) ms" }
    return "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
  }
}
