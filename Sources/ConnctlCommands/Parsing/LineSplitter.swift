/// Splits input into lines.
struct LineSplitter {
  private let maxBytes: Int
  private var line: [UInt8] = []
  private var isTooLong = false

  /// - Parameter maxBytes: The maximum length of a line, without its end. Longer lines are skipped.
  init(maxBytes: Int) { self.maxBytes = maxBytes }

  /// Returns the lines that end in the next part of the input, and `nil` for each skipped line.
  mutating func lines(in part: some Sequence<UInt8>) -> [String?] {
    var lines: [String?] = []
    for byte in part {
      if byte == UInt8(ascii: "\n") {
        lines.append(self.isTooLong ? nil : String(decoding: self.line, as: UTF8.self))
        self.line.removeAll(keepingCapacity: true)
        self.isTooLong = false
      } else if self.line.count < self.maxBytes {
        self.line.append(byte)
      } else {
        self.isTooLong = true
      }
    }
    return lines
  }
}
