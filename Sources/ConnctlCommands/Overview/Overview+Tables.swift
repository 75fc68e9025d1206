import Connectivity
import ConnectivityProtocol

// The tables of the overview.

extension Overview {
  // MARK: The links

  func linkTable(_ drawing: Drawing) -> Table? {
    guard !self.links.isEmpty else { return nil }
    let folding = LinkFolding(self.links)
    let hasSignal = folding.links.contains { $0.signal != nil }
    // A rate needs two readings of the counters, and the links that connd reported.
    let hasRates = !self.isElsewhere && drawing.rows != nil
    var columns = [Table.Column("LINK")]
    if folding.links.contains(where: \.hasKind) { columns.append(.init("KIND", giveWay: 1)) }
    let hasKind = columns.count == 2
    columns.append(.init("MEDIUM", giveWay: 2))
    columns.append(.init("STATE", giveWay: 3))
    if hasSignal { columns.append(.init("SIGNAL", giveWay: 4)) }
    if hasRates {
      columns.append(.init("IN", minimum: 8, isRight: true))
      columns.append(.init("OUT", minimum: 8, isRight: true))
    }
    columns.append(.init("NOTES", giveWay: 0, isTurnable: true))
    var table = Table(columns)
    for link in self.chosen(folding.links, drawing.options) {
      var cells = [Text(link.name)]
      if hasKind { cells.append(Text(link.kind)) }
      let medium = NetworkMedium(link.medium)
      cells.append(medium == .unknown ? Text("-", .faint) : Text(medium.rawValue))
      cells.append(link.stateText)
      if hasSignal {
        cells.append(link.signal.map { Text($0.text(drawing.glyphs), $0.ink) } ?? "")
      }
      if hasRates {
        let rate = self.rates.perSecond[link.name]
        cells += [Self.rate(rate?.received), Self.rate(rate?.sent)]
      }
      let addresses = drawing.options.showsAddresses ? link.addresses : []
      cells.append(
        Text(Self.notes(on: link, addresses + [folding.portText(of: link)].compactMap { $0 })))
      table.rows.append(cells)
    }
    return table
  }

  /// Returns the links that the filter shows, in the chosen order.
  private func chosen(
    _ links: [Connectivity_V1_Link], _ options: ViewOptions
  ) -> [Connectivity_V1_Link] {
    let shown = links.filter { link in
      options.shows(
        link.name, link.kind, NetworkMedium(link.medium).rawValue, link.wireless.ssid,
        (link.alternativeNames + link.addresses).joined(separator: " "))
    }
    func traffic(_ link: Connectivity_V1_Link) -> UInt64 {
      let rate = self.rates.perSecond[link.name]
      return (rate?.received ?? 0) &+ (rate?.sent ?? 0)
    }
    switch options.order {
    case .preference: return shown
    case .traffic: return shown.sorted { (traffic($1), $0.name) < (traffic($0), $1.name) }
    case .name: return shown.sorted { $0.name < $1.name }
    }
  }

  fileprivate static func rate(_ rate: UInt64?) -> Text {
    guard let rate else { return "" }
    return Text(rate.rateText, rate == 0 ? .faint : nil)
  }

  /// Returns the costs and the network behind a link. The network's name comes last, so that a
  /// right-to-left name does not affect other text.
  fileprivate static func notes(
    on link: Connectivity_V1_Link, _ first: [String]
  ) -> String {
    let network = link.wireless.hasSsid ? ["\"\(link.wireless.ssid)\""] : []
    return (first + link.notes(withSignal: false) + network).joined(separator: ", ")
  }

  // MARK: Changes

  func changeTable(_ drawing: Drawing) -> Table? {
    guard !self.changes.isEmpty else { return nil }
    var table = Table([.init("CHANGES"), .init(""), .init("")])
    let today = drawing.style.localTime(drawing.now).date
    let folded = FoldedChange.groups(self.changes).compactMap { FoldedChange($0) }
    let shown = folded.filter { drawing.options.shows($0.headline.string, $0.details) }
    for change in shown.suffix(drawing.rows ?? 10).reversed() {
      let local = drawing.style.localTime(change.time)
      let time =
        local.date == today ? String(local.time.prefix(8)) : String(local.date.dropFirst(5))
      table.rows.append([Text(time, .faint), change.headline, Text(change.details)])
    }
    return table
  }

  // MARK: Clients

  func clientTable(_ drawing: Drawing) -> Table? {
    guard let clients = self.clients, !clients.isEmpty else { return nil }
    var table = Table([
      .init("CLIENT"), .init("PID", isRight: true), .init("USER", giveWay: 1, isRight: true),
      .init("FOLLOWS"),
    ])
    let processes = Dictionary(grouping: clients) { [$0.process, $0.user] }
    for key in processes.keys.sorted(by: { ($0[1], $0[0]) < ($1[1], $1[0]) }) {
      let streams = processes[key] ?? []
      let process = key[0]
      let name = process == 0 ? "-" : self.processNames[process] ?? "-"
      let user = self.userNames[key[1]] ?? "\(key[1])"
      guard drawing.options.shows(name, user) else { continue }
      table.rows.append([
        Text(name), Text(process == 0 ? "-" : "\(process)", .faint), Text(user, .faint),
        self.follows(streams, drawing),
      ])
    }
    return table
  }

  /// Returns `changes, 2 paths, guards 3 flows (destroy: interface lost, 00:40:02)`.
  func follows(_ streams: [Connectivity_V1_Client], _ drawing: Drawing) -> Text {
    var parts: [String] = []
    var (paths, flows, guards) = ([String](), UInt64(0), false)
    var last: (reported: Connectivity_V1_GuardingClient, time: WallTime)?
    for stream in streams {
      switch stream.subject {
      case .watch, nil: if !parts.contains("changes") { parts.append("changes") }
      case .path(let path): paths.append(path.destination)
      case .guarding(let guarding):
        guards = true
        flows += UInt64(guarding.flows)
        guard guarding.hasInvalidationTime,
          let time = try? WallTime(guarding.invalidationTime)
        else { continue }
        if last.map({ $0.time <= time }) ?? true { last = (guarding, time) }
      }
    }
    if let first = paths.first {
      parts.append(paths.count == 1 ? "path to \(first)" : "\(paths.count) paths")
    }
    if guards { parts.append("guards \(flows) \(flows == 1 ? "flow" : "flows")") }
    guard let last else { return Text(parts.joined(separator: ", ")) }
    let severity = Invalidation.Severity(last.reported.severity)
    let reason = Invalidation.Reason(last.reported.reason).text
    let time = drawing.style.localTime(last.time).time.prefix(8)
    return Text(
      "\(parts.joined(separator: ", ")) (\(severity.text): \(reason), \(time))", severity.ink)
  }
}

extension Connectivity_V1_Link {
  /// The signal of the link's network, or `nil` if unknown.
  fileprivate var signal: Signal? {
    if self.wireless.hasSignal { return .strength(self.wireless.signal) }
    if self.modem.hasSignalQuality { return .quality(self.modem.signalQuality) }
    return nil
  }
}
