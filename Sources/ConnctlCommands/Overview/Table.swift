/// Rows whose columns stand below each other, each in one line: what does not fit gives way, whole columns first.
struct Table {
  struct Column {
    var title: String
    /// Which columns go first where there is no room, the lowest first; `nil`: it stays.
    var giveWay: Int?
    /// It is at least so wide, so that what changes in it moves nothing.
    var minimum: Int
    var isRight: Bool
    /// Its cells may end with a name in a script that is written from right to left: nothing stands behind that it could turn.
    var isTurnable: Bool

    init(
      _ title: String, giveWay: Int? = nil, minimum: Int = 0, isRight: Bool = false,
      isTurnable: Bool = false
    ) {
      self.title = title
      self.giveWay = giveWay
      self.minimum = max(minimum, title.count)
      self.isRight = isRight
      self.isTurnable = isTurnable
    }
  }

  let columns: [Column]
  /// As many cells as there are columns. The last cell of a row may be longer than the line.
  var rows: [[Text]] = []

  init(_ columns: [Column]) { self.columns = columns }

  /// With its title.
  var height: Int { self.rows.count + 1 }

  /// Between columns.
  private static let gap = 2
  /// The last column is worth its place from so many columns on, unless all that is in it takes fewer.
  private static let leastLast = 12
  /// Names are cut rather than that something else has no room.
  private static let widestFirst = 15

  /// - Parameter count: As many lines as there are at most, with the title; where there is room, the last counts what has no place.
  func lines(_ drawing: Overview.Drawing, rows count: Int) -> [Line] {
    let glyphs = drawing.glyphs
    let counts = drawing.isRoomy && self.rows.count >= count
    let shown = self.rows.prefix(max(0, count - (counts ? 2 : 1)))
    let missing = counts ? self.rows.count - shown.count : 0
    let titles = self.columns.map { Text($0.title, .faint) }
    let cells = ([titles] + shown).map { row in
      row.enumerated().map { column, text in
        var line = Line(glyphs)
        line.append(text.string, text.ink, rightToLeft: self.columns[column].isTurnable)
        return line
      }
    }
    var widths = self.columns.map(\.minimum)
    for row in cells {
      for (column, cell) in row.enumerated() { widths[column] = max(widths[column], cell.width) }
    }
    widths[0] = min(widths[0], Self.widestFirst)
    let kept = self.kept(widths, within: drawing.columns)
    var lines = cells.map { self.line($0, widths, kept, drawing) }
    if missing > 0 {
      var more = Line(glyphs)
      more.append("\(glyphs.ellipsis) \(missing) more", .faint)
      lines.append(more)
    }
    return lines
  }

  /// The columns that there is room for.
  private func kept(_ widths: [Int], within width: Int) -> [Int] {
    var kept = Array(self.columns.indices)
    let order = self.columns.indices.filter { self.columns[$0].giveWay != nil }
      .sorted { self.columns[$0].giveWay ?? 0 < self.columns[$1].giveWay ?? 0 }
    for leaving in order {
      let needed = kept.reduce(Self.gap * (kept.count - 1)) { sum, column in
        sum + (column == widths.count - 1 ? min(widths[column], Self.leastLast) : widths[column])
      }
      if needed <= width { break }
      kept.removeAll { $0 == leaving }
    }
    return kept
  }

  private func line(
    _ cells: [Line], _ widths: [Int], _ kept: [Int], _ drawing: Overview.Drawing
  ) -> Line {
    var line = Line(drawing.glyphs)
    for column in kept {
      if column != kept.first { line.pad(to: line.width + Self.gap) }
      let start = line.width
      let cell = cells[column].fitted(
        column == self.columns.count - 1 ? max(0, drawing.columns - start) : widths[column])
      if self.columns[column].isRight { line.pad(to: start + widths[column] - cell.width) }
      line.append(cell)
      if column != kept.last { line.pad(to: start + widths[column]) }
    }
    return line
  }
}
