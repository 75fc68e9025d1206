/// Rows with aligned columns, as text or as a part of a picture.
struct Table {
  struct Column: ExpressibleByStringLiteral {
    var title: String
    /// The order in which columns of a picture are omitted, lowest first; `nil` means never.
    var giveWay: Int?
    /// The minimum width, so that changing content does not move other columns.
    var minimum: Int
    var isRight: Bool
    /// Whether cells may end with right-to-left text. No text follows such a cell, because it could
    /// be reordered.
    var isTurnable: Bool

    init(
      _ title: String = "", giveWay: Int? = nil, minimum: Int = 0, isRight: Bool = false,
      isTurnable: Bool = false
    ) {
      self.title = title
      self.giveWay = giveWay
      self.minimum = max(minimum, title.count)
      self.isRight = isRight
      self.isTurnable = isTurnable
    }

    init(stringLiteral title: String) { self.init(title) }
  }

  /// The columns. If none has a title, rows may have more cells.
  let columns: [Column]
  var rows: [[Text]] = []
  /// The number of spaces before each row of a text.
  let indent: Int

  init(_ columns: [Column] = [], indent: Int = 0) {
    self.columns = columns
    self.indent = indent
  }

  mutating func add(_ cells: Text...) { self.rows.append(cells) }

  /// Adds a row for each text. The first row begins with `name`, the others with `other`.
  mutating func add(_ name: Text, then other: Text = "", _ texts: [String]) {
    for (position, text) in texts.enumerated() {
      self.add(position == 0 ? name : other, Text(text))
    }
  }

  /// The table without the columns that have only a title.
  var withoutEmptyColumns: Table {
    let kept = self.columns.indices.filter { column in
      self.rows.contains { !$0[column].string.isEmpty }
    }
    var table = Table(kept.map { self.columns[$0] }, indent: self.indent)
    table.rows = self.rows.map { row in kept.map { row[$0] } }
    return table
  }

  private var titles: [Text] { self.columns.map { Text($0.title, .faint) } }

  /// Returns the width of each column: that of its widest cell, or the minimum.
  private func widths(_ rows: some Sequence<[Int]>) -> [Int] {
    rows.reduce(into: self.columns.map(\.minimum)) { widths, row in
      for (column, width) in row.enumerated() {
        if column == widths.count { widths.append(0) }
        widths[column] = max(widths[column], width)
      }
    }
  }
}

/// The output as text. The last cell of a row wraps if it is too long for the line.
extension Table {
  func lines(_ style: Style) -> [String] {
    var rows = self.rows
    if self.columns.contains(where: { !$0.title.isEmpty }) { rows.insert(self.titles, at: 0) }
    if style.isASCII { rows = rows.map { $0.map(\.ascii) } }
    let widths = self.widths(rows.map { $0.dropLast().map(\.string.count) })
    return rows.flatMap { self.lines($0, widths, style) }
  }

  private func lines(_ row: [Text], _ widths: [Int], _ style: Style) -> [String] {
    guard let last = row.last else { return [] }
    var line = String(repeating: " ", count: self.indent)
    var used = self.indent
    for (column, (cell, width)) in zip(row.dropLast(), widths).enumerated() {
      let padding = String(repeating: " ", count: width - cell.string.count)
      let isRight = self.columns.indices.contains(column) && self.columns[column].isRight
      line +=
        isRight
        ? style.paint(padding + cell.string, cell.ink) + "  "
        : style.paint(cell.string, cell.ink) + padding + "  "
      used += width + 2
    }
    let words = last.string.split(separator: " ").map(String.init)
    // A word that does not fit next to the other columns gets more room and is not cut.
    let maxLength = words.map(\.count).max() ?? 0
    let hang = max(self.indent + 2, min(used, style.width - maxLength))

    var lines: [String] = []
    var pending: [String] = []
    func flush() {
      line += style.paint(pending.joined(separator: " "), last.ink)
      lines.append(line.trimmingTrailingSpaces)
    }
    for word in words {
      if used + (pending.isEmpty ? 0 : 1) + word.count > style.width, used > hang {
        flush()
        (line, used, pending) = (String(repeating: " ", count: hang), hang, [])
      }
      used += (pending.isEmpty ? 0 : 1) + word.count
      pending.append(word)
    }
    flush()
    return lines
  }
}

extension String {
  fileprivate var trimmingTrailingSpaces: String {
    let end = self.lastIndex { $0 != " " }
    return end.map { String(self[...$0]) } ?? ""
  }
}

/// The output as a part of a picture, one line per row. If there is not enough room, whole columns
/// are omitted first. Each row has one cell per column. The last cell is cut at the end of the
/// line.
extension Table {
  /// The number of lines, including the title.
  var height: Int { self.rows.count + 1 }

  /// The space between columns.
  private static let gap = 2
  /// The last column is shown if it has at least this width, or needs less.
  private static let minLastWidth = 12
  /// The maximum width of the first column, so that there is room for other columns.
  private static let widestFirst = 15

  /// Returns the width that the table needs to show everything.
  func width(_ glyphs: Glyphs) -> Int {
    self.widths(of: self.cells(self.rows, glyphs)).reduce(Self.gap * (self.columns.count - 1), +)
  }

  private func cells(_ rows: some Sequence<[Text]>, _ glyphs: Glyphs) -> [[Line]] {
    ([self.titles] + rows).map { row in
      row.enumerated().map { column, text in
        var line = Line(glyphs)
        line.append(text.string, text.ink, rightToLeft: self.columns[column].isTurnable)
        return line
      }
    }
  }

  private func widths(of cells: [[Line]]) -> [Int] {
    var widths = self.widths(cells.map { $0.map(\.width) })
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
        sum + (column == widths.count - 1 ? min(widths[column], Self.minLastWidth) : widths[column])
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
