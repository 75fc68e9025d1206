import Connectivity

extension SocketTestimony {
  /// The text `last heard 12 ms ago, data is unacknowledged`.
  var wordsNow: String {
    var text = "last heard \((.zero - self.lastHeard).shortText) ago"
    if self.timeouts > 0 {
      text += ", \(self.timeouts) timeout\(self.timeouts == 1 ? "" : "s") in a row"
    }
    return text + (self.hasUnacknowledgedData ? ", data is unacknowledged" : "")
  }
}
