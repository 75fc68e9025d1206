/// A line of a picture, as columns.
struct Line: Hashable, Sendable {
  /// One column of a terminal.
  struct Cell: Hashable, Sendable {
    /// A visible character with its combining marks. Empty if a wide character begins in the
    /// preceding column.
    var text: String
    var ink: TextStyle?

    static let blank = Cell(text: " ")
    var isContinuation: Bool { self.text.isEmpty }
  }

  private(set) var cells: [Cell] = []
  let glyphs: Glyphs

  init(_ glyphs: Glyphs) { self.glyphs = glyphs }

  var width: Int { self.cells.count }

  func cell(_ column: Int) -> Cell { column < self.width ? self.cells[column] : .blank }

  /// The maximum number of marks on a character: Thai has a vowel and a tone. More marks would
  /// overlap the neighbouring lines.
  private static let maxMarks = 2

  /// Appends text. Replaces each character by ASCII if it cannot be shown or has an unknown width.
  mutating func append(_ text: String, _ ink: TextStyle? = nil, rightToLeft: Bool = false) {
    var marks = Self.maxMarks
    for scalar in text.unicodeScalars where !scalar.isVariationSelector {
      let isShown =
        (scalar.isASCII || !self.glyphs.isASCII) && (rightToLeft || !scalar.isRightToLeft)
      switch isShown ? scalar.columns : nil {
      case 0?:
        // A mark at the start would combine with a preceding text.
        guard marks < Self.maxMarks, let last = self.cells.lastIndex(where: { !$0.isContinuation })
        else { continue }
        marks += 1
        self.cells[last].text.unicodeScalars.append(scalar)
        continue
      case let columns?:
        let isSpace = scalar.properties.generalCategory == .spaceSeparator
        self.cells.append(Cell(text: isSpace ? " " : String(Character(scalar)), ink: ink))
        for _ in 1..<max(1, columns) {
          self.cells.append(Cell(text: isSpace ? " " : "", ink: ink))
        }
      case nil:
        for letter in scalar.inASCII { self.cells.append(Cell(text: String(letter), ink: ink)) }
      }
      marks = 0
    }
  }

  mutating func append(_ text: Text) { self.append(text.string, text.ink) }

  mutating func pad(to column: Int) {
    while self.width < column { self.cells.append(.blank) }
  }

  mutating func append(_ other: Line) { self.cells += other.cells }

  /// Cuts the line to a width, with an ellipsis.
  mutating func fit(_ width: Int) {
    guard self.width > width else { return }
    let ellipsis = Array(self.glyphs.ellipsis).suffix(max(0, width))
    var end = max(0, width - ellipsis.count)
    while end > 0, self.cells[end].isContinuation { end -= 1 }
    let ink = end > 0 ? self.cells[end - 1].ink : nil
    self.cells = Array(self.cells[..<end]) + ellipsis.map { Cell(text: String($0), ink: ink) }
  }

  func fitted(_ width: Int) -> Line {
    var line = self
    line.fit(width)
    return line
  }

  /// Returns the line for plain output: without trailing spaces.
  func text(color: Bool) -> String {
    let end = self.cells.lastIndex { $0.text != " " }.map { $0 + 1 } ?? 0
    var writer = CellWriter(color: color)
    for cell in self.cells[..<end] { writer.write(cell) }
    return writer.end()
  }
}

/// Writes cells, and changes the colour only if needed.
struct CellWriter {
  let color: Bool
  private(set) var text = ""
  private var ink: TextStyle?

  init(color: Bool) { self.color = color }

  mutating func write(_ cell: Line.Cell) {
    self.use(cell.ink)
    self.text += cell.text
  }

  /// Writes a control sequence.
  mutating func control(_ sequence: String) { self.text += sequence }

  mutating func use(_ ink: TextStyle?) {
    guard self.color, ink != self.ink else { return }
    self.text += "\u{1B}[0\(ink.map { ";\($0.code)" } ?? "")m"
    self.ink = ink
  }

  mutating func end() -> String {
    self.use(nil)
    return self.text
  }
}
