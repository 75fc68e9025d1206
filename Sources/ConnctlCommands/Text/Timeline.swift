import Connectivity

/// A drawing of the history along the time axis: a row for each category, one for losses, and one
/// for each severity of invalidation.
///
/// Each column is a span of time. A short event is visible in its column, but its duration is not.
struct Timeline {
  private let entries: [ConnectivityChange]
  private let start: WallTime
  private let end: WallTime

  /// Returns `nil` if there is nothing to draw.
  ///
  /// - Parameter entries: In the order of publication.
  init?(_ entries: [ConnectivityChange], until now: WallTime) {
    guard let first = entries.map(\.time).min(), let last = entries.map(\.time).max() else {
      return nil
    }
    self.entries = entries
    self.start = first
    // The clock may have been set back in the meantime.
    self.end = max(now, last, first.advanced(by: .microseconds(1)))
  }

  /// The width of the labels: the longest word and two spaces.
  private static let margin = 10
  /// The minimum number of columns for a useful drawing.
  private static let minColumns = 10

  func lines(columns: Int, _ glyphs: Glyphs, _ style: Style) -> [Line] {
    let count = max(Self.minColumns, columns - Self.margin)
    var lines = [self.title(columns: count, glyphs, style)]
    for (category, columns) in self.categories(count) {
      var line = self.row(category.rawValue, glyphs)
      for isSo in columns {
        line.append(isSo ? glyphs.full : glyphs.empty, isSo ? category.ink : .faint)
      }
      lines.append(line)
    }
    lines += self.counts(count).map { name, ink, counts in
      var line = self.row(name, glyphs)
      for count in counts { line.append(Self.digit(count, glyphs), count > 0 ? ink : .faint) }
      return line
    }
    lines += self.axis(count, glyphs, style)
    return lines.map { $0.fitted(max(columns, Self.margin + Self.minColumns)) }
  }

  // MARK: Rows

  private func row(_ name: String, _ glyphs: Glyphs) -> Line {
    var line = Line(glyphs)
    line.append(name)
    line.pad(to: Self.margin)
    return line
  }

  private func title(columns: Int, _ glyphs: Glyphs, _ style: Style) -> Line {
    let (first, last) = (style.localTime(self.start), style.localTime(self.end))
    let column = self.span / columns
    let until = first.date == last.date ? "" : "\(last.date) "
    var line = Line(glyphs)
    line.append("\(first.date) \(first.time.prefix(8)) to \(until)\(last.time.prefix(8))", .heading)
    var scale = Line(glyphs)
    scale.append(", a column is \(column < .seconds(1) ? "less than a second" : column.text)")
    if line.width + scale.width <= Self.margin + columns { line.append(scale) }
    return line
  }

  /// Returns the columns in which each category was current, at least for some time.
  private func categories(_ count: Int) -> [(NetworkCategory, [Bool])] {
    var held: [NetworkCategory: [Bool]] = [:]
    func hold(_ category: NetworkCategory, _ columns: ClosedRange<Int>) {
      for column in columns {
        held[category, default: Array(repeating: false, count: count)][column] = true
      }
    }
    var (present, column) = (NetworkCategory?.none, 0)
    for case .transition(let transition) in self.entries {
      let next = self.column(of: transition.time, count)
      // The start of the state before the first transition is unknown, so the state fills all
      // columns before.
      hold(present ?? transition.from, min(column, next)...next)
      if transition.bounced { hold(.offline, next...next) }
      hold(transition.to, next...next)
      (present, column) = (transition.to, next)
    }
    if let present { hold(present, column...(count - 1)) }
    return NetworkCategory.allCases.compactMap { category in held[category].map { (category, $0) } }
  }

  private func counts(_ count: Int) -> [(name: String, ink: TextStyle, columns: [Int])] {
    var rows: [(name: String, ink: TextStyle, columns: [Int])] = []
    func add(_ name: String, _ ink: TextStyle, _ isMeant: (ConnectivityChange) -> Bool) {
      var columns = Array(repeating: 0, count: count)
      for entry in self.entries where isMeant(entry) {
        columns[self.column(of: entry.time, count)] += 1
      }
      if columns.contains(where: { $0 > 0 }) { rows.append((name, ink, columns)) }
    }
    add("losses", .bad) { entry in
      guard case .transition(let transition) = entry else { return false }
      return transition.bounced || transition.to == .offline
    }
    for severity in [Invalidation.Severity.destroy, .drain, .advise] {
      add(severity.text.replacing("to ", with: ""), severity.ink) { entry in
        guard case .invalidation(let invalidation) = entry else { return false }
        return invalidation.severity == severity
      }
    }
    return rows
  }

  private static func digit(_ count: Int, _ glyphs: Glyphs) -> String {
    switch count {
    case 0: glyphs.empty
    case 1...9: "\(count)"
    default: "+"
    }
  }

  /// The distance between marks on the axis: a time and some space.
  private static let step = 16

  private func axis(_ count: Int, _ glyphs: Glyphs, _ style: Style) -> [Line] {
    var marks = self.row("", glyphs)
    var times = self.row("", glyphs)
    let isLong = self.span > .seconds(86_400)
    for column in stride(from: 0, to: count, by: Self.step) {
      let time = style.localTime(self.start.advanced(by: self.span / count * column))
      let text =
        isLong ? "\(time.date.dropFirst(5)) \(time.time.prefix(5))" : "\(time.time.prefix(8))"
      guard column + text.count <= count else { break }
      marks.pad(to: Self.margin + column)
      marks.append(glyphs.mark, .faint)
      times.pad(to: Self.margin + column)
      times.append(text, .faint)
    }
    return [marks, times]
  }

  // MARK: Time

  private var span: Duration { max(.microseconds(1), self.start.duration(to: self.end)) }

  private func column(of time: WallTime, _ count: Int) -> Int {
    let part = self.start.duration(to: time) / self.span
    return Int(max(0, min(Double(count - 1), part * Double(count))))
  }
}
