import Connectivity

extension SocketTestimony {
  /// The text `last heard 12 ms ago, data is unacknowledged`.
  var wordsNow: String {
    var words = "last heard \((.zero - self.lastHeard).shortWords) ago"
    if self.timeouts > 0 {
      words += ", \(self.timeouts) timeout\(self.timeouts == 1 ? "" : "s") in a row"
    }
    return words + (self.hasUnacknowledgedData ? ", data is unacknowledged" : "")
  }
}
