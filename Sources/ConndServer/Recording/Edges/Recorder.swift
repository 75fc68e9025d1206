import Connectivity
import Glibc
import LinuxSupport
import Logging

/// A recorder of the monitor thread's inputs for a later replay.
///
/// The inputs of a turn are collected and written before the next wait. A file error ends only the
/// recording. Not thread-safe: the monitor thread owns it.
final class Recorder {
  /// The maximum size of a recording in bytes.
  static let maxSize = 64 << 20

  private let path: String
  private let largest: Int
  private let logger: Logger
  /// -1 once the recording has ended.
  private var descriptor: CInt
  private var length = 0
  /// The bytes that have not been written.
  private var turn: [UInt8] = []

  /// Begins a recording and replaces the contents of the file.
  ///
  /// - Parameter largest: The maximum size of the file in bytes.
  /// - Throws: If the file cannot be written.
  init(
    path: String, _ header: RecordingHeader, largest: Int = Recorder.maxSize, logger: Logger
  ) throws(SystemError) {
    // Addresses and names of networks reveal the user's location.
    let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw SystemError() }
    // The file begins with an end-of-turn record. A reader can then tell that turns have such
    // records, even if everything else is cut off.
    let records = [header.encoded, RecordedItem.endOfTurn.serializedBytes()].flatMap(
      RecordFrame.framed)
    let error = Self.prepare(descriptor, RecordingHeader.line + records)
    guard error == 0 else {
      close(descriptor)
      throw SystemError(error)
    }
    self.length = RecordingHeader.line.count + records.count
    (self.path, self.largest, self.logger, self.descriptor) = (path, largest, logger, descriptor)
    logger.notice("recording started", metadata: ["path": "\(path)"])
  }

  deinit {
    self.flush()
    if self.descriptor >= 0 { close(self.descriptor) }
  }

  /// - Returns: An errno, or 0.
  private static func prepare(_ descriptor: CInt, _ start: [UInt8]) -> CInt {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return errno }
    // Writing to a pipe could block until its reader continues.
    guard status.st_mode & S_IFMT == S_IFREG else { return EINVAL }
    guard ftruncate(descriptor, 0) == 0, RecordFrame.write(start, to: descriptor) else {
      return errno
    }
    return 0
  }

  func note(_ kind: RecordedItem.OneOf_Kind) {
    guard self.descriptor >= 0 else { return }
    let record = RecordFrame.framed(RecordedItem(kind).serializedBytes())
    // Leaves room for the record that marks the file as full.
    guard self.length + self.turn.count + record.count + 64 <= self.largest else {
      return self.endFull()
    }
    self.turn += record
  }

  func note(_ input: Input) {
    guard self.descriptor >= 0, let input = RecordedInput(input) else { return }
    self.note(.input(input))
  }

  /// Writes the complete turn.
  func flush() {
    guard self.descriptor >= 0, !self.turn.isEmpty else { return }
    self.turn += RecordFrame.framed(RecordedItem.endOfTurn.serializedBytes())
    guard RecordFrame.write(self.turn, to: self.descriptor) else {
      let error = SystemError()
      // A partial turn could not be replayed correctly.
      ftruncate(self.descriptor, off_t(self.length))
      return self.end("recording stopped: \(error)")
    }
    self.length += self.turn.count
    self.turn.removeAll(keepingCapacity: self.turn.count < 1 << 20)
  }

  /// Ends the recording. A turn that does not fit is omitted completely.
  private func endFull() {
    _ = RecordFrame.write(
      RecordFrame.framed(RecordedItem(.full(true)).serializedBytes()), to: self.descriptor)
    self.end("recording stopped: maximum size reached")
  }

  private func end(_ why: String) {
    close(self.descriptor)
    (self.descriptor, self.turn) = (-1, [])
    self.logger.warning("\(why)", metadata: ["path": "\(self.path)", "bytes": "\(self.length)"])
  }
}
