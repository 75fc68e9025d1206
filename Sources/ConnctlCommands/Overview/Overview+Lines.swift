import Connectivity
import ConnectivityProtocol

extension Overview {
  /// The parameters of a drawing.
  struct Drawing {
    var columns: Int
    /// `nil` means unlimited.
    var rows: Int?
    var glyphs: Glyphs
    var style: Style
    var now: WallTime
    var options = ViewOptions()
  }

  /// Returns the picture for a terminal.
  func frame(
    _ size: Frame.Size, _ glyphs: Glyphs, _ style: Style, now: WallTime,
    options: ViewOptions = ViewOptions()
  ) -> Frame {
    Frame(
      self.lines(
        Drawing(
          columns: size.columns, rows: size.rows, glyphs: glyphs, style: style, now: now,
          options: options)),
      size: size)
  }

  func lines(_ drawing: Drawing) -> [Line] {
    let isRoomy = drawing.isRoomy
    var lines = self.heading(drawing) + AddressFamily.allCases.map { self.family($0, drawing) }
    if isRoomy, let dns = self.snapshot.dns {
      lines.append(drawing.line(Text("  dns   "), Text(dns.text)))
    }
    let footer = drawing.footer
    let room = drawing.rows.map { max(0, $0 - lines.count - footer.count) }
    lines += self.body(drawing, rows: room)
    if let rows = drawing.rows, !footer.isEmpty {
      lines += Array(
        repeating: Line(drawing.glyphs), count: max(0, rows - footer.count - lines.count))
    }
    return (lines + footer).map { $0.fitted(drawing.columns) }
  }

  /// Returns the tables: one below the other, or on a wide terminal the changes on the left and the
  /// others on the right.
  private func body(_ drawing: Drawing, rows: Int?) -> [Line] {
    let (links, changes) = (self.linkTable(drawing), self.changeTable(drawing))
    let clients = self.clientTable(drawing)
    let others = [links, clients].compactMap { $0 }
    let gap = 3
    let width = others.map { $0.width(drawing.glyphs) }.max() ?? 0
    var (left, right) = (drawing, drawing)
    right.columns = width
    left.columns = drawing.columns - width - gap
    // The notes of links may be right-to-left, so no other text follows them on a line.
    guard let changes, drawing.isWide, left.columns >= Self.minChangesWidth else {
      return Self.stacked([links, changes, clients].compactMap { $0 }, drawing, rows: rows)
    }
    let columns = (
      left: Self.stacked([changes], left, rows: rows),
      right: Self.stacked(others, right, rows: rows)
    )
    return (0..<max(columns.left.count, columns.right.count)).map { row in
      var line =
        row < columns.left.count ? columns.left[row].fitted(left.columns) : Line(drawing.glyphs)
      guard row < columns.right.count, columns.right[row].width > 0 else { return line }
      line.pad(to: left.columns + gap)
      line.append(columns.right[row].fitted(width))
      return line
    }
  }

  /// The minimum width, in columns, of the table of changes beside other tables.
  private static let minChangesWidth = 68

  private static func stacked(_ sections: [Table], _ drawing: Drawing, rows: Int?) -> [Line] {
    let blank = drawing.isRoomy ? 1 : 0
    let shares = self.shares(of: rows, among: sections.map { $0.height + blank })
    return zip(sections, shares).flatMap { section, share -> [Line] in
      guard share > blank + 1 else { return [] }
      return Array(repeating: Line(drawing.glyphs), count: blank)
        + section.lines(drawing, rows: share - blank)
    }
  }

  /// Distributes rows fairly: each section gets the rows it wants, but at most its share of the
  /// rows that are left.
  static func shares(of room: Int?, among wants: [Int]) -> [Int] {
    guard var left = room else { return wants }
    var shares = wants.map { _ in 0 }
    let order = wants.indices.sorted { (wants[$0], $0) < (wants[$1], $1) }
    for (place, index) in order.enumerated() {
      shares[index] = min(wants[index], left / (order.count - place))
      left -= shares[index]
    }
    return shares
  }

  // MARK: The paths

  private func heading(_ drawing: Drawing) -> [Line] {
    let status = self.snapshot.status
    let age = self.snapshot.since.duration(to: drawing.now)
    let heading = drawing.line(
      Text(status.summary, status.category.ink), Text("\(status.costs) (since \(age.text))"))
    let elsewhere = "connd is in another network namespace: byte counters are unavailable"
    return [heading]
      + [self.remark, self.isElsewhere ? elsewhere : nil].compactMap { $0 }.map {
        drawing.line(Text($0, .middling))
      }
  }

  private func family(_ family: AddressFamily, _ drawing: Drawing) -> Line {
    let path = self.snapshot.status[family]
    guard !self.snapshot.status.isUnused(family) else {
      let text = drawing.isNarrow ? "\(family.rawValue) none" : "  \(family.rawValue)  none"
      return drawing.line(Text(text, .faint))
    }
    // If there is little room, the path gets the columns of the source address, too.
    var line = drawing.line(
      Text(drawing.isNarrow ? "\(family.rawValue) " : "  \(family.rawValue)  "))
    line.append(
      PathDiagram(path, links: self.links).line(
        drawing.glyphs, width: drawing.columns - line.width, ink: path.status.ink))
    if let reason = path.reason {
      line.append("  \(reason.text)", path.status.ink)
    } else if let source = path.source {
      var origin = Line(drawing.glyphs)
      origin.append("  from \(source)", .faint)
      if line.width + origin.width <= drawing.columns { line.append(origin) }
    }
    return line
  }
}

extension Overview.Drawing {
  /// Whether there is room for blank lines and the help line.
  var isRoomy: Bool { self.rows ?? .max >= 16 }

  /// Whether the terminal is narrow, like the 40 columns of a phone.
  var isNarrow: Bool { self.columns < 60 }

  /// Whether there is room for two tables beside each other.
  var isWide: Bool { self.rows != nil && self.isRoomy && self.columns >= 120 }

  /// The lines at the bottom, about the keys.
  var footer: [Line] {
    guard self.rows != nil else { return [] }
    if self.options.showsKeys {
      return [
        "q, Ctrl-C  quit", "/          filter links, changes and clients",
        "s          sort links: preference, traffic, name", "a          show addresses",
        "Ctrl-L     redraw", "Ctrl-Z     suspend; fg continues", "?          hide this help",
      ].map { self.line(Text($0, .faint)) }
    }
    if let text = self.options.text { return [self.line(Text(text, .middling))] }
    return self.isRoomy ? [self.line(Text("q quits, ? shows all keys", .faint))] : []
  }

  func line(_ texts: Text...) -> Line {
    var line = Line(self.glyphs)
    for text in texts { line.append(text) }
    return line
  }
}
