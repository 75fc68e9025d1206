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
      + [self.paint("since \(start.date) \(start.time) (\(age.words))", .heading)]
      + self.rows(statistics.filter { !$0.present })
  }

  private func rows(_ statistics: [Connectivity_V1_Statistic]) -> [String] {
    let names = statistics.map { statistic in
      let words = statistic.name.split(separator: "_").joined(separator: " ")
      return statistic.kind.isEmpty ? words : "\(words): \(statistic.kind.separatingWords)"
    }
    let digits = statistics.map { String($0.value).count }.max() ?? 0
    var columns = Columns(indent: 2)
    columns.minimum = [28]
    for (name, statistic) in zip(names, statistics) {
      let value = String(statistic.value)
      let padding = String(repeating: " ", count: digits - value.count)
      columns.rows.append([
        Text(name), Text(padding + value, statistic.value == 0 ? .faint : nil), Text(""),
      ])
    }
    return columns.lines(self).map { $0.trimmingEnd }
  }
}

extension String {
  fileprivate var trimmingEnd: String {
    String(self[..<(self.lastIndex { $0 != " " }.map(self.index(after:)) ?? self.startIndex)])
  }
}
