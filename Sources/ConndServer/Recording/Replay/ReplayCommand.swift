import Glibc
import LinuxSupport

/// `connd --replay FILE`, and `connd --replay FILE --report REPORT`.
struct ReplayCommand {
  let file: String
  /// The report to write instead of printing.
  var report: String?
  /// The file for the answers at the end, or `nil` if they are not needed.
  var answers: String?

  /// The maximum size in bytes, which is more than connd records.
  private static let maxSize = 1 << 30

  /// - Returns: Whether the recording was replayed to its end. If not, the reason was printed.
  func run() -> Bool {
    do {
      let bytes = try contents(of: self.file, max: Self.maxSize)
      if let report {
        let substitute = try Report(of: bytes)
        guard Self.write(substitute.bytes, to: report) else { return false }
        if let answers, !Self.write(substitute.answers, to: answers) { return false }
        return self.tell(substitute.end)
      }
      let recording = try Recording(bytes)
      let output = ReplayOutput()
      try Replay(recording, print: output.print) { complain("replay: \($0)") }.run()
      guard output.flush() else {
        complain("cannot write the replay: \(SystemError())")
        return false
      }
      return self.tell(recording.end)
    } catch {
      complain("\(self.file) \(error is SystemError ? "cannot be read: " : "")\(error)")
      return false
    }
  }

  private static func write(_ bytes: [UInt8], to path: String) -> Bool {
    let descriptor: CInt
    do throws(SystemError) {
      descriptor = try newFile(path)
    } catch {
      complain(
        error.code == EEXIST
          ? "\(path) already exists: name another file, or remove it"
          : "\(path) cannot be written: \(error)")
      return false
    }
    defer { close(descriptor) }
    guard RecordFrame.write(bytes, to: descriptor) else {
      complain("\(path) cannot be written: \(SystemError())")
      return false
    }
    return true
  }

  private func tell(_ end: Recording.End?) -> Bool {
    switch end {
    case nil: return true
    case .torn(let offset)?:
      complain(
        "\(self.file) ends early, with an incomplete record at offset \(offset): the replay ends with the last complete turn"
      )
      return true
    case .unfinished?:
      complain(
        "\(self.file) ends early, within a turn of connd's loop: the replay ends with the last complete turn"
      )
      return true
    case .full?:
      complain("\(self.file) reached its maximum size: it lacks everything after that")
      return true
    case .damaged(let offset)?:
      complain(
        "\(self.file) is damaged at offset \(offset): the replay ends with the last complete turn")
      return false
    }
  }
}

/// Standard output, written in large pieces.
private final class ReplayOutput {
  private var bytes: [UInt8] = []
  private var isWell = true

  private static let piece = 1 << 16

  func print(_ line: String) {
    self.bytes += line.utf8
    if self.bytes.count >= Self.piece { _ = self.flush() }
  }

  /// - Returns: Whether everything has been written so far.
  func flush() -> Bool {
    self.isWell = self.isWell && RecordFrame.write(self.bytes, to: STDOUT_FILENO)
    self.bytes.removeAll(keepingCapacity: true)
    return self.isWell
  }
}
