/// The contents of a recording file: the header and all items in order.
struct RecordingFile {
  var header: RecordingHeader
  /// The items of complete turns.
  var items: [RecordedItem] = []
  /// Why the file ends early or is invalid, or `nil` if it is complete.
  var end: Recording.End?

  /// Reads the bytes of a recording, or of a report, which ends with a recording.
  ///
  /// - Throws: If the bytes are not a recording, or have another version.
  init(_ bytes: [UInt8]) throws(RecordingError) {
    var rest = bytes.dropFirst(Report.textLength(of: bytes))
    guard rest.starts(with: RecordingHeader.line) else {
      let isOurs = rest.starts(with: Array("connd recording ".utf8))
      throw RecordingError(
        description: isOurs
          ? "is a recording in the format of another version: replay it with that version of connd"
          : "is not a recording")
    }
    rest = rest.dropFirst(RecordingHeader.line.count)
    let start = rest.startIndex
    guard case .some(.some(let first)) = RecordFrame.take(&rest),
      let header = RecordingHeader(decoding: first)
    else {
      throw RecordingError(description: "has a damaged header at offset \(start)")
    }
    self.header = header
    while self.end == nil, !rest.isEmpty {
      let offset = bytes.count - rest.count
      guard let record = RecordFrame.take(&rest) else {
        self.end = .torn(offset: offset)
        break
      }
      guard let record, let item = try? RecordedItem(serializedBytes: record), item.isPossible
      else {
        self.end = .damaged(offset: offset)
        break
      }
      if case .full? = item.kind { self.end = .full }
      self.items.append(item)
    }
    self.dropUnfinishedTurn()
  }

  /// Removes the partial turn at the end of the file.
  private mutating func dropUnfinishedTurn() {
    let whole = self.items.lastIndex(where: \.endsTurn).map { $0 + 1 } ?? 0
    let unfinished = self.items.count - whole
    self.items.removeLast(unfinished)
    // Every recording begins with an end-of-turn record, which alone is not a turn.
    let isWithoutStart = self.items.count == 1
    if isWithoutStart { self.items = [] }
    if unfinished > 0 || isWithoutStart { self.end = self.end ?? .unfinished }
  }
}
