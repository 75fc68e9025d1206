import Connectivity
import ConnectivityProtocol

extension Style {
  /// Returns the text of `connctl stats`: current values and counters.
  func statistics(
    _ statistics: [Connectivity_V1_Statistic], since: WallTime, now: WallTime
  ) -> [String] {
    let start = self.localTime(since)
    let age = Duration.microseconds(
      now.microseconds.subtractingReportingOverflow(since.microseconds).partialValue)
    return [self.paint("now", .heading)]
      + self.rows(statistics.filter(\.present))
      + [self.paint("since \(start.date) \(start.time) (\(age.text))", .heading)]
      + self.rows(statistics.filter { !$0.present })
  }

  private func rows(_ statistics: [Connectivity_V1_Statistic]) -> [String] {
    var table = Table([.init(minimum: 28), .init(isRight: true)], indent: 2)
    for statistic in statistics {
      let words = statistic.name.split(separator: "_").joined(separator: " ")
      let kind = statistic.kind.isEmpty ? "" : ": \(statistic.kind.separatedWords)"
      let value = Text(String(statistic.value), statistic.value == 0 ? .faint : nil)
      table.add(Text(words + kind), value, "")
    }
    return table.lines(self)
  }
}
