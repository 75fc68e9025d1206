import Connectivity
import ConnectivityRules

extension Anonymizer {
  /// Returns a recording with substitutes for everything.
  ///
  /// - Throws: If it is not a recording that can be replayed.
  func recording(_ bytes: [UInt8]) throws(RecordingError) -> [UInt8] {
    let records = try RecordingFile(bytes)
    var configurations: [String] = []
    do throws(ConfigurationError) {
      // The substitutes of link names and network hashes are complete only after all items. So the
      // second pass has the correct ones.
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
      + ([header.encoded] + records.items.compactMap { self.item($0)?.encoded })
      .flatMap(RecordFrame.framed)
  }

  /// Returns the item with substitutes, or `nil` if it cannot be replaced.
  func item(_ item: RecordedItem) -> RecordedItem? {
    switch item {
    case .turn, .turnEnded, .now, .time, .opened, .bound, .option, .readable, .full: return item
    case .sent(let role, let error, let bytes):
      return .sent(role, error: error, self.datagram(bytes, role))
    case .received(let role, .datagram(let bytes)):
      return .received(role, .datagram(self.datagram(bytes, role)))
    case .received: return item
    case .file(let question, let error, let bytes):
      return self.file(question, bytes).map { .file($0.question, error: error, $0.answer) }
    case .fact(let kind, let afterLinks, let bytes):
      return FactUpdate(kind, bytes)?.anonymized(by: self).recorded.map {
        .fact($0.kind, afterLinks: afterLinks, $0.bytes)
      }
    case .input(let bytes): return self.input(bytes).map { .input($0) }
    }
  }
}
