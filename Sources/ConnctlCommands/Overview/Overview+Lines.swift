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
    var now: Timestamp
  }

  /// Returns the picture for a terminal.
  func frame(_ size: Frame.Size, _ glyphs: Glyphs, _ style: Style, now: Timestamp) -> Frame {
    Frame(
      self.lines(
        Drawing(columns: size.columns, rows: size.rows, glyphs: glyphs, style: style, now: now)),
      size: size)
  }

  func lines(_ drawing: Drawing) -> [Line] {
    let isRoomy = drawing.isRoomy
    var lines = self.heading(drawing) + AddressFamily.allCases.map { self.family($0, drawing) }
    if isRoomy, let dns = self.snapshot.dns {
      lines.append(drawing.line(Text("  dns   "), Text(dns.words)))
    }
    let footer = isRoomy && drawing.rows != nil ? [drawing.line(Text("q quits", .faint))] : []
    let sections = [self.linkTable(drawing), self.changeTable(drawing), self.clientTable(drawing)]
      .compactMap { $0 }
    let room = drawing.rows.map { max(0, $0 - lines.count - footer.count) }
    let shares = Self.shares(of: room, among: sections.map { $0.height + (isRoomy ? 1 : 0) })
    for (section, share) in zip(sections, shares) where share > (isRoomy ? 2 : 1) {
      if isRoomy { lines.append(Line(drawing.glyphs)) }
      lines += section.lines(drawing, rows: share - (isRoomy ? 1 : 0))
    }
    if let rows = drawing.rows, !footer.isEmpty {
      lines += Array(repeating: Line(drawing.glyphs), count: max(0, rows - 1 - lines.count))
    }
    return (lines + footer).map { $0.fitted(drawing.columns) }
  }

  /// Distributes rows fairly: each section gets what it wants, as long as the others can have as
  /// much.
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
      Text(status.summary, status.category.ink), Text("\(status.costs) (since \(age.words))"))
    let elsewhere = "connd is in another network namespace: byte counters are unavailable"
    return [heading]
      + [self.remark, self.isElsewhere ? elsewhere : nil].compactMap { $0 }.map {
        drawing.line(Text($0, .middling))
      }
  }

  private func family(_ family: AddressFamily, _ drawing: Drawing) -> Line {
    let path = self.snapshot.status[family]
    // If there is little room, the path gets it.
    var line = drawing.line(
      Text(drawing.isNarrow ? "\(family.rawValue) " : "  \(family.rawValue)  "))
    line.append(
      PathDiagram(path, links: self.links).line(
        drawing.glyphs, width: drawing.columns - line.width, ink: path.status.ink))
    if let reason = path.reason {
      line.append("  \(reason.words)", path.status.ink)
    } else if let source = path.source {
      var origin = Line(drawing.glyphs)
      origin.append("  from \(source)", .faint)
      if line.width + origin.width <= drawing.columns { line.append(origin) }
    }
    return line
  }

  // MARK: The links

  private func linkTable(_ drawing: Drawing) -> Table? {
    guard !self.links.isEmpty else { return nil }
    let hasSignal = self.links.contains { $0.signal != nil }
    var columns = [Table.Column("LINK")]
    columns.append(.init("MEDIUM", giveWay: 1))
    columns.append(.init("STATE", giveWay: 2))
    if hasSignal { columns.append(.init("SIGNAL", giveWay: 3)) }
    columns.append(.init("IN", minimum: 8, isRight: true))
    columns.append(.init("OUT", minimum: 8, isRight: true))
    columns.append(.init("NOTES", giveWay: 0, isTurnable: true))
    var table = Table(columns)
    for link in self.links {
      var cells = [Text(link.name), Text(Medium(link.medium).rawValue)]
      cells.append(Text((link.state.word ?? "unknown").separatingWords, link.state.ink))
      if hasSignal {
        cells.append(link.signal.map { Text($0.words(drawing.glyphs), $0.ink) } ?? "")
      }
      let rate = self.rates.perSecond[link.name]
      cells.append(Self.rate(rate?.received))
      cells.append(Self.rate(rate?.sent))
      cells.append(Text(Self.notes(on: link)))
      table.rows.append(cells)
    }
    return table
  }

  private static func rate(_ rate: UInt64?) -> Text {
    guard let rate else { return "" }
    return Text(rate.rateWords, rate == 0 ? .faint : nil)
  }

  /// Returns the costs and the network behind a link. The network's name comes last, so that a
  /// right-to-left name does not affect other text.
  private static func notes(on link: Connectivity_V1_Link) -> String {
    var notes: [String] = []
    if link.expensive { notes.append("metered") }
    if link.constrained { notes.append("constrained") }
    if link.hasModem { notes += link.modem.words }
    if let words = link.viaWords { notes.append(words) }
    if link.hasWireless, link.wireless.hasSsid { notes.append("\"\(link.wireless.ssid)\"") }
    return notes.joined(separator: ", ")
  }

  // MARK: Changes

  private func changeTable(_ drawing: Drawing) -> Table? {
    guard !self.changes.isEmpty else { return nil }
    var table = Table([.init("CHANGES"), .init(""), .init("")])
    let today = drawing.style.localTime(drawing.now).date
    for change in self.changes.suffix(drawing.rows ?? 10).reversed() {
      let local = drawing.style.localTime(change.time)
      let time =
        local.date == today ? String(local.time.prefix(8)) : String(local.date.dropFirst(5))
      table.rows.append([Text(time, .faint), change.headline, Text(change.details)])
    }
    return table
  }

  // MARK: Clients

  private func clientTable(_ drawing: Drawing) -> Table? {
    guard let clients = self.clients, !clients.isEmpty else { return nil }
    var table = Table([
      .init("CLIENT"), .init("PID", isRight: true), .init("USER", giveWay: 1, isRight: true),
      .init("FOLLOWS"),
    ])
    let processes = Dictionary(grouping: clients) { [$0.process, $0.user] }
    for key in processes.keys.sorted(by: { ($0[1], $0[0]) < ($1[1], $1[0]) }) {
      let streams = processes[key] ?? []
      let process = key[0]
      table.rows.append([
        Text(process == 0 ? "-" : self.processNames[process] ?? "-"),
        Text(process == 0 ? "-" : "\(process)", .faint), Text("\(key[1])", .faint),
        self.follows(streams, drawing),
      ])
    }
    return table
  }

  /// Returns `changes, 2 paths, guards 3 flows (destroy: interface lost, 00:40:02)`.
  private func follows(_ streams: [Connectivity_V1_Client], _ drawing: Drawing) -> Text {
    var words: [String] = []
    var (paths, flows, guards) = ([String](), UInt64(0), false)
    var last: (told: Connectivity_V1_GuardingClient, time: Timestamp)?
    for stream in streams {
      switch stream.subject {
      case .watch, nil: if !words.contains("changes") { words.append("changes") }
      case .path(let path): paths.append(path.destination)
      case .guarding(let guarding):
        guards = true
        flows += UInt64(guarding.flows)
        guard guarding.hasInvalidationTime,
          let time = try? Timestamp(guarding.invalidationTime)
        else { continue }
        if last.map({ $0.time <= time }) ?? true { last = (guarding, time) }
      }
    }
    if let first = paths.first {
      words.append(paths.count == 1 ? "path to \(first)" : "\(paths.count) paths")
    }
    if guards { words.append("guards \(flows) \(flows == 1 ? "flow" : "flows")") }
    guard let last else { return Text(words.joined(separator: ", ")) }
    let severity = Invalidation.Severity(last.told.severity)
    let reason = Invalidation.Reason(last.told.reason).words
    let time = drawing.style.localTime(last.time).time.prefix(8)
    return Text(
      "\(words.joined(separator: ", ")) (\(severity.rawValue): \(reason), \(time))", severity.ink)
  }
}

extension Connectivity_V1_Link {
  /// The signal of its network, or `nil` if unknown.
  fileprivate var signal: Signal? {
    if self.hasWireless, self.wireless.hasSignal { return .strength(self.wireless.signal) }
    if self.hasModem, self.modem.hasSignalQuality { return .quality(self.modem.signalQuality) }
    return nil
  }
}

extension Overview.Drawing {
  /// With fewer rows, blank lines and the help line are omitted.
  var isRoomy: Bool { self.rows ?? .max >= 16 }

  /// Whether the terminal is narrow, like the 40 columns of a phone.
  var isNarrow: Bool { self.columns < 60 }

  func line(_ texts: Text...) -> Line {
    var line = Line(self.glyphs)
    for text in texts { line.append(text) }
    return line
  }
}
