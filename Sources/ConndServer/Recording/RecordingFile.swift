/// A recording as a file has it: what it begins with, and everything after that, in its order.
struct RecordingFile {
  var header: RecordingHeader
  /// Those of whole turns.
  var items: [RecordedItem] = []
  /// Where the file ends before its time, or makes no sense, and why.
  var end: Recording.End?

  /// Reads the bytes of a recording, or of a report, at the end of which one is.
  ///
  /// - Throws: where it is no recording, or of another version.
  init(_ bytes: [UInt8]) throws(RecordingError) {
    var rest = bytes.dropFirst(Report.textLength(of: bytes))
    guard rest.starts(with: RecordingHeader.line) else {
      let isOurs = rest.starts(with: Array("connd recording ".utf8))
      throw RecordingError(
        description: isOurs ? "is a recording of another version's format" : "is no recording")
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

  /// Leaves out what there is of a turn that the file ends in. Older recordings do not say where a turn ends; if one breaks
  /// off, it is in its last turn.
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
    // The first mark only says that the ends of turns are marked.
    let isWithoutStart = self.items == [.turnEnded]
    if isWithoutStart { self.items = [] }
    if unfinished > 0 || isWithoutStart { self.end = self.end ?? .unfinished }
  }
}

extension RecordedItem {
  fileprivate var beginsTurn: Bool { if case .turn = self { true } else { false } }

  /// Whether a number in it is one that a clock may show: whatever is reckoned with those has room.
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
