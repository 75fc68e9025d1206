extension String {
  /// Returns the first word with this prefix, or else the nearest word within two typos, or `nil`.
  package func nearest(of words: [String]) -> String? {
    guard !self.isEmpty else { return nil }
    if let begun = words.first(where: { $0.hasPrefix(self) }) { return begun }
    let slips = words.map { (word: $0, count: self.slips(to: $0)) }.min { $0.count < $1.count }
    // A word with typos in half of its letters could mean any other word.
    guard let slips, slips.count <= 2, 2 * slips.count < min(self.count, slips.word.count) else {
      return nil
    }
    return slips.word
  }

  /// Returns the number of missing, surplus or wrong letters. Two transposed letters count as one
  /// typo.
  private func slips(to other: String) -> Int {
    let (from, to) = (Array(self), Array(other))
    var before = [Int]()
    var row = Array(0...to.count)
    for (i, letter) in from.enumerated() {
      var next = [i + 1]
      for (j, wanted) in to.enumerated() {
        var costs = [row[j] + (letter == wanted ? 0 : 1), row[j + 1] + 1, next[j] + 1]
        if i > 0, j > 0, letter == to[j - 1], from[i - 1] == wanted {
          costs.append(before[j - 1] + 1)
        }
        next.append(costs.min() ?? 0)
      }
      (before, row) = (row, next)
    }
    return row[to.count]
  }
}
