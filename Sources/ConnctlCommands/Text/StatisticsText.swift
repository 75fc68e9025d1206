import Connectivity
import ConnectivityProtocol

extension Style {
  /// Returns the text of `connctl stats`: current values and counters.
  ///
  /// - Parameter version: connd's version, or empty if it is unknown.
  func statistics(
    _ statistics: [Connectivity_V1_Statistic], version: String, since: WallTime, now: WallTime
  ) -> [String] {
    let start = self.localTime(since)
    let age = Duration.microseconds(
      now.microseconds.subtractingReportingOverflow(since.microseconds).partialValue)
    return [self.paint(version.isEmpty ? "now" : "connd \(version) now", .heading)]
      + self.rows(statistics.filter(\.present))
      + [self.paint("since \(start.date) \(start.time) (\(age.text))", .heading)]
      + self.rows(statistics.filter { !$0.present })
  }

  private func rows(_ statistics: [Connectivity_V1_Statistic]) -> [String] {
    var table = Table([.init(minimum: 28), .init(isRight: true)], indent: 2)
    // Shows only the kinds that occurred, or one line for all of them.
    let occurred = Set(statistics.filter { $0.value > 0 }.map(\.name))
    var absent: Set<String> = []
    for var statistic in statistics {
      if !statistic.kind.isEmpty, statistic.value == 0 {
        guard !occurred.contains(statistic.name), absent.insert(statistic.name).inserted else {
          continue
        }
        statistic.kind = ""
      }
      let words = statistic.name.split(separator: "_").joined(separator: " ")
      let kind = statistic.kind.isEmpty ? "" : ": \(statistic.kind.separatedWords)"
      let value = Text(String(statistic.value), statistic.value == 0 ? .faint : nil)
      table.add(Text(words + kind), value, "")
    }
    return table.lines(self)
  }
}
