/// The contents of a recording file: the header and all items in order.
struct RecordingFile {
  var header: RecordingHeader
  /// The items of complete turns.
  var items: [RecordedItem] = []
  /// Why the file ends early or is invalid, or `nil` if it is complete.
  var end: Recording.End?

  /// Reads the bytes of a recording, or of a report, which ends with a recording.
  ///
  /// - Throws: If it is not a recording, or has another version.
  init(_ bytes: [UInt8]) throws(RecordingError) {
    var rest = bytes.dropFirst(Report.textLength(of: bytes))
    guard rest.starts(with: RecordingHeader.line) else {
      let isOurs = rest.starts(with: Array("connd recording ".utf8))
      throw RecordingError(
        description: isOurs ? "is a recording in an unknown format" : "is not a recording")
    }
    rest = rest.dropFirst(RecordingHeader.line.count)
    let start = rest.startIndex
    guard case .some(.some(let first)) = RecordFrame.take(&rest),
      let header = try? RecordingHeader(decoding: first)
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
      guard let record, let item = try? RecordedItem(decoding: record), item.isPossible else {
        self.end = .damaged(offset: offset)
        break
      }
      if item == .full { self.end = .full }
      self.items.append(item)
    }
    self.dropUnfinishedTurn()
  }

  /// Removes the partial turn at the end of the file. Older recordings do not mark the ends of
  /// turns. If one of them breaks off, the last turn is partial.
  private mutating func dropUnfinishedTurn() {
    let whole: Int
    if let last = self.items.lastIndex(of: .turnEnded) {
      whole = last + 1
    } else if self.end == nil || self.end == .full {
      return
    } else {
      whole = self.items.lastIndex(where: \.beginsTurn) ?? 0
    }
    let unfinished = self.items.count - whole
    self.items.removeLast(unfinished)
    // The first mark only shows that the ends of turns are marked.
    let isWithoutStart = self.items == [.turnEnded]
    if isWithoutStart { self.items = [] }
    if unfinished > 0 || isWithoutStart { self.end = self.end ?? .unfinished }
  }
}

extension RecordedItem {
  fileprivate var beginsTurn: Bool { if case .turn = self { true } else { false } }

  /// Whether its numbers are possible clock readings, so that calculations with them cannot
  /// overflow.
  fileprivate var isPossible: Bool {
    switch self {
    // 146 years, and the year 9999.
    case .now(let nanoseconds): (0...(.max / 2)).contains(nanoseconds)
    case .time(let microseconds): (0...253_402_300_799_999_999).contains(microseconds)
    case .turn(let wake): (0...(.max / 2)).contains(wake.slept ?? 0)
    default: true
    }
  }
}
