import Connectivity
import ConnectivityRules

extension Anonymizer {
  /// Returns a recording with substitutes for all addresses and names.
  ///
  /// - Throws: If the bytes are not a recording that can be replayed.
  func recording(_ bytes: [UInt8]) throws(RecordingError) -> [UInt8] {
    let records = try RecordingFile(bytes)
    var configurations: [String] = []
    do throws(ConfigurationError) {
      // The substitutes of link names and network hashes are complete only after all items, so only
      // the second pass is correct.
      for _ in 0..<2 {
        for item in records.items { _ = self.item(item) }
        for change in records.header.past { _ = self.change(change) }
        _ = self.overrides(records.header.costs)
        let configuration = try Configuration.parse(records.header.configuration, file: "")
        configurations.append(self.text(of: configuration))
      }
    } catch {
      throw RecordingError(description: "cannot be read by this version: \(error)")
    }
    var header = records.header
    header.configuration = configurations.last ?? ""
    header.restored = self.snapshot(header.restored)
    header.past = header.past.map(self.change)
    header.costs = self.overrides(header.costs)
    return RecordingHeader.line
      + ([header.encoded] + records.items.compactMap { self.item($0)?.serializedBytes() })
      .flatMap(RecordFrame.framed)
  }

  /// Returns the item with substitutes, or `nil` if it cannot be replaced.
  func item(_ item: RecordedItem) -> RecordedItem? {
    var item = item
    switch item.kind {
    case .sent(var sending)?:
      guard let role = sending.socket.role else { return nil }
      sending.datagram = self.datagram(sending.datagram, role)
      item.kind = .sent(sending)
    case .received(var reception)?:
      guard let role = reception.socket.role else { return nil }
      if case .datagram(let bytes)? = reception.kind {
        reception.datagram = self.datagram(bytes, role)
      }
      item.kind = .received(reception)
    case .file(let file)?:
      guard let question = file.question,
        let substitute = self.file(question, file.contents)
      else { return nil }
      item.file = .init(substitute.question, .success(substitute.answer))
      item.file.error = file.error
    case .facts(let facts)?:
      guard let update = facts.update?.anonymized(by: self),
        let substitute = RecordedFacts(update, afterLinks: facts.afterLinks)
      else { return nil }
      item.facts = substitute
    case .input(let input)?:
      guard let substitute = input.input.flatMap(self.input).flatMap({ RecordedInput($0) }) else {
        return nil
      }
      item.input = substitute
    case .turn?, .now?, .time?, .worked?, .opened?, .bound?, .option?, .readable?, .full?,
      .turnEnded?:
      break
    case nil: return nil
    }
    return item
  }
}

extension FactUpdate {
  /// Returns the facts with substitutes for a report.
  fileprivate func anonymized(by anonymizer: Anonymizer) -> FactUpdate {
    switch self {
    case .dns: self
    case .modems(let links): .modems(anonymizer.modems(links))
    case .metering(let reason): .metering(anonymizer.metering(reason))
    case .checks(let checks): .checks(anonymizer.checks(checks))
    case .portals(let portals): .portals(anonymizer.portals(portals))
    case .advertisement(let advertisement):
      .advertisement(PortalAdvertisement(link: advertisement.link, portal: anonymizer.portal))
    }
  }
}
