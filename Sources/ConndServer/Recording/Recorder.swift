import Connectivity
import Glibc
import Logging
import UnixTransport

/// Writes down what comes in at the edges of the monitor's thread, to be replayed elsewhere.
///
/// What a turn of the loop brings is kept, and written before the next wait. What goes wrong with the file ends the recording and
/// nothing else. Not thread-safe: the monitor's thread owns it.
final class Recorder {
  /// In octets: a recording becomes no longer than this.
  static let largest = 64 << 20

  private let path: String
  private let largest: Int
  private let logger: Logger
  /// -1 once nothing more is recorded.
  private var descriptor: CInt
  private var length = 0
  /// What is yet to be written.
  private var turn: [UInt8] = []

  /// Begins a recording, in place of what the file held.
  ///
  /// - Parameter largest: in octets.
  /// - Throws: what keeps the file from being written.
  init(
    path: String, _ header: RecordingHeader, largest: Int = Recorder.largest, logger: Logger
  ) throws(SystemError) {
    // Addresses and names of networks tell where somebody is.
    let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw SystemError() }
    // With the mark it is known of a file whatever is cut off whether the ends of turns are marked.
    let records = [header.encoded, RecordedItem.turnEnded.encoded].flatMap(RecordFrame.framed)
    let error = Self.prepare(descriptor, RecordingHeader.line + records)
    guard error == 0 else {
      close(descriptor)
      throw SystemError(error)
    }
    self.length = RecordingHeader.line.count + records.count
    (self.path, self.largest, self.logger, self.descriptor) = (path, largest, logger, descriptor)
    logger.notice("what connd is told and asked is recorded", metadata: ["path": "\(path)"])
  }

  deinit {
    self.flush()
    if self.descriptor >= 0 { close(self.descriptor) }
  }

  /// - Returns: an errno, or 0.
  private static func prepare(_ descriptor: CInt, _ start: [UInt8]) -> CInt {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return errno }
    // Nobody must wait for the reader of a pipe.
    guard status.st_mode & S_IFMT == S_IFREG else { return EINVAL }
    guard ftruncate(descriptor, 0) == 0, RecordFrame.write(start, to: descriptor) else {
      return errno
    }
    return 0
  }

  func note(_ item: RecordedItem) {
    guard self.descriptor >= 0 else { return }
    let record = RecordFrame.framed(item.encoded)
    // There is always room to say that it is full.
    guard self.length + self.turn.count + record.count + 64 <= self.largest else {
      return self.endFull()
    }
    self.turn += record
  }

  func note(_ input: Input) {
    guard self.descriptor >= 0, let bytes = RecordedInput.encoded(input) else { return }
    self.note(.input(bytes))
  }

  /// What a turn brought is complete.
  func flush() {
    guard self.descriptor >= 0, !self.turn.isEmpty else { return }
    self.turn += RecordFrame.framed(RecordedItem.turnEnded.encoded)
    guard RecordFrame.write(self.turn, to: self.descriptor) else {
      let error = SystemError()
      // Half a turn would not be replayed as it was.
      ftruncate(self.descriptor, off_t(self.length))
      return self.end("connd goes on unrecorded: \(error)")
    }
    self.length += self.turn.count
    self.turn.removeAll(keepingCapacity: self.turn.count < 1 << 20)
  }

  /// A turn that has no room is left out as a whole.
  private func endFull() {
    _ = RecordFrame.write(RecordFrame.framed(RecordedItem.full.encoded), to: self.descriptor)
    self.end("the recording is as long as it may become, and connd goes on unrecorded")
  }

  private func end(_ why: String) {
    close(self.descriptor)
    (self.descriptor, self.turn) = (-1, [])
    self.logger.warning("\(why)", metadata: ["path": "\(self.path)", "bytes": "\(self.length)"])
  }
}
