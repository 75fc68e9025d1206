/// The complete content of a terminal.
struct Frame: Hashable, Sendable {
  struct Size: Hashable, Sendable {
    var columns: Int
    var rows: Int
  }

  let size: Size
  /// One line per row, none wider than the terminal.
  let lines: [Line]

  init(_ lines: [Line], size: Size) {
    self.size = size
    self.lines = lines.prefix(size.rows).map { $0.fitted(size.columns) }
  }

  /// Returns the output that changes a terminal's content from `shown` to this frame, or an empty
  /// text if they are equal. Only differences are written, because the connection may be slow.
  ///
  /// - Parameter shown: `nil` if the content is unknown.
  func update(from shown: Frame?, color: Bool) -> String {
    var writer = CellWriter(color: color)
    let isKnown = shown?.size == self.size
    if !isKnown { writer.control("\u{1B}[H\u{1B}[2J") }
    let blank = Line(.ascii)
    for row in 0..<self.size.rows {
      let old = isKnown ? shown?.line(row) ?? blank : blank
      for span in Self.spans(from: old, to: self.line(row) ?? blank) {
        writer.control("\u{1B}[\(row + 1);\(span.lowerBound + 1)H")
        self.write(row, span, &writer)
      }
    }
    return writer.end()
  }

  private func line(_ row: Int) -> Line? { row < self.lines.count ? self.lines[row] : nil }

  private func write(_ row: Int, _ span: Range<Int>, _ writer: inout CellWriter) {
    let line = self.line(row)
    // Trailing blanks are erased with one sequence.
    let width = line?.width ?? 0
    let erases = span.upperBound > width && span.upperBound - max(width, span.lowerBound) > 3
    for column in span where !(erases && column >= width) {
      writer.write(line?.cell(column) ?? .blank)
    }
    if erases {
      writer.use(nil)
      writer.control("\u{1B}[K")
    }
  }

  /// Moving the cursor costs about as much as writing this many columns.
  private static let leap = 8

  /// Returns the columns in which two lines differ, extended to whole characters.
  private static func spans(from old: Line, to new: Line) -> [Range<Int>] {
    let width = max(old.width, new.width)
    func isInside(_ column: Int) -> Bool {
      old.cell(column).isContinuation || new.cell(column).isContinuation
    }
    var spans: [Range<Int>] = []
    for column in 0..<width where old.cell(column) != new.cell(column) {
      var (start, end) = (column, column + 1)
      while start > 0, isInside(start) { start -= 1 }
      while end < width, isInside(end) { end += 1 }
      if let last = spans.last, start - last.upperBound <= Self.leap {
        spans[spans.count - 1] = last.lowerBound..<max(end, last.upperBound)
      } else {
        spans.append(start..<end)
      }
    }
    return spans
  }
}
