/// Rows with aligned columns, one line each. If there is not enough room, whole columns are omitted
/// first.
struct Table {
  struct Column {
    var title: String
    /// The order in which columns are omitted, lowest first; `nil` means never.
    var giveWay: Int?
    /// The minimum width, so that changing content moves nothing.
    var minimum: Int
    var isRight: Bool
    /// Whether its cells may end with right-to-left text, so that nothing may follow that it could
    /// reorder.
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
  /// Each row has one cell per column. The last cell of a row may exceed the line.
  var rows: [[Text]] = []

  init(_ columns: [Column]) { self.columns = columns }

  /// Including the title.
  var height: Int { self.rows.count + 1 }

  /// The space between columns.
  private static let gap = 2
  /// The last column is shown if it has at least this width, or needs less.
  private static let leastLast = 12
  /// The width at which names are cut, so that there is room for other columns.
  private static let widestFirst = 15

  /// The width that the table needs to show everything.
  func width(_ glyphs: Glyphs) -> Int {
    self.widths(of: self.cells(self.rows[...], glyphs)).reduce(
      Self.gap * (self.columns.count - 1), +)
  }

  private func cells(_ rows: ArraySlice<[Text]>, _ glyphs: Glyphs) -> [[Line]] {
    let titles = self.columns.map { Text($0.title, .faint) }
    return ([titles] + rows).map { row in
      row.enumerated().map { column, text in
        var line = Line(glyphs)
        line.append(text.string, text.ink, rightToLeft: self.columns[column].isTurnable)
        return line
      }
    }
  }

  private func widths(of cells: [[Line]]) -> [Int] {
    var widths = self.columns.map(\.minimum)
    for row in cells {
      for (column, cell) in row.enumerated() { widths[column] = max(widths[column], cell.width) }
    }
    widths[0] = min(widths[0], Self.widestFirst)
    return widths
  }

  /// - Parameter count: The maximum number of lines, including the title. If there is room, the
  ///   last line counts the rows that do not fit.
  func lines(_ drawing: Overview.Drawing, rows count: Int) -> [Line] {
    let glyphs = drawing.glyphs
    let counts = drawing.isRoomy && self.rows.count >= count
    let shown = self.rows.prefix(max(0, count - (counts ? 2 : 1)))
    let missing = counts ? self.rows.count - shown.count : 0
    let cells = self.cells(shown, glyphs)
    let widths = self.widths(of: cells)
    let kept = self.kept(widths, within: drawing.columns)
    var lines = cells.map { self.line($0, widths, kept, drawing) }
    if missing > 0 {
      var more = Line(glyphs)
      more.append("\(glyphs.ellipsis) \(missing) more", .faint)
      lines.append(more)
    }
    return lines
  }

  /// Returns the columns that fit.
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
