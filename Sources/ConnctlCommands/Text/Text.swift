/// A piece of text in one colour.
struct Text: Hashable, Sendable {
  var string: String
  var ink: TextStyle?

  init(_ string: String, _ ink: TextStyle? = nil) {
    self.string = string
    self.ink = ink
  }

  /// The space between two words that stay on one line.
  static let tie: Unicode.Scalar = "\u{A0}"

  /// Joins words so that no line break separates them.
  static func tied(_ words: String...) -> String {
    words.joined(separator: String(Character(Self.tie)))
  }

  /// The text for a terminal without UTF-8.
  var ascii: Text { Text(self.string.ascii, self.ink) }
}

extension Text: ExpressibleByStringInterpolation {
  init(stringLiteral value: String) { self.init(value) }
}

/// Rows with aligned columns. The last cell of a row wraps if it is too long for the line.
struct Columns: Sendable {
  var rows: [[Text]] = []
  /// The number of spaces before each row.
  var indent = 0
  /// The minimum widths of the columns.
  var minimum: [Int] = []

  mutating func add(_ cells: Text...) { self.rows.append(cells) }

  /// Without the columns that only have a title.
  var withoutEmptyColumns: Columns {
    var columns = self
    let count = self.rows.map(\.count).max() ?? 0
    for column in (0..<count).reversed()
    where self.rows.dropFirst().allSatisfy({
      !$0.indices.contains(column) || $0[column].string.isEmpty
    }) {
      columns.rows = columns.rows.map { row in
        row.enumerated().filter { $0.offset != column }.map(\.element)
      }
    }
    return columns
  }

  func lines(_ style: Style) -> [String] {
    let rows = style.isASCII ? self.rows.map { $0.map(\.ascii) } : self.rows
    var widths = self.minimum
    for row in rows {
      for (column, cell) in row.dropLast().enumerated() {
        if column == widths.count { widths.append(0) }
        widths[column] = max(widths[column], cell.string.count)
      }
    }
    return rows.flatMap { Self.lines($0, widths, self.indent, style) }
  }

  private static func lines(
    _ row: [Text], _ widths: [Int], _ indent: Int, _ style: Style
  ) -> [String] {
    guard let last = row.last else { return [] }
    var line = String(repeating: " ", count: indent)
    var column = indent
    for (cell, width) in zip(row.dropLast(), widths) {
      line += style.paint(cell.string, cell.ink)
      line += String(repeating: " ", count: width - cell.string.count + 2)
      column += width + 2
    }
    let words = last.string.split(separator: " ").map(String.init)
    // A word that does not fit next to the other columns gets more room and is not cut.
    let longest = words.map(\.count).max() ?? 0
    let hang = max(indent + 2, min(column, style.width - longest))

    var lines: [String] = []
    var used = column
    var pending: [String] = []
    func flush() { line += style.paint(pending.joined(separator: " "), last.ink) }
    for word in words {
      let gap = pending.isEmpty ? 0 : 1
      if used + gap + word.count > style.width, used > hang {
        flush()
        lines.append(line.trimmingTrailingSpaces)
        (line, used, pending) = (String(repeating: " ", count: hang), hang, [])
      }
      used += (pending.isEmpty ? 0 : 1) + word.count
      pending.append(word)
    }
    flush()
    lines.append(line.trimmingTrailingSpaces)
    return lines
  }
}

extension String {
  fileprivate var trimmingTrailingSpaces: String {
    let end = self.lastIndex { $0 != " " }
    return end.map { String(self[...$0]) } ?? ""
  }
}
