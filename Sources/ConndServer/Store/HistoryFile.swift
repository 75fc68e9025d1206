import CLinux
import Connectivity
import Glibc
import Logging
import UnixTransport

/// Keeps what was published across restarts: generations never repeat, and clients resume.
///
/// The file is a log of records (`RecordFrame`), each a message, behind a line that names the format. A record is appended before it is published. What a crash leaves half written is
/// cut off at the next start, and the file is rewritten in one step whenever it has become too long. Where it may not hold all
/// that was published, nothing of it is used, for what is missing may be what counts. It stays open: where descriptors run out,
/// nothing is lost. Not thread-safe.
final class HistoryFile {
  private static let header = Array("connd history 2\n".utf8)
  /// Of a file that does not hold all that was published. As long as the other, which it overwrites: that takes no room on a
  /// full disk.
  private static let abandoned = Array("connd history -\n".utf8)
  /// The file is rewritten when it has so many records more than the store holds.
  private static let slack = Store.capacity

  /// In octets. No history is larger; a file that is, is not ours.
  private static let largest = 1 << 26

  private let path: String
  private var descriptor: CInt = -1
  private var records = 0
  private var clockSteps = 0
  /// It was said that the history cannot be kept.
  private var hasComplained = false
  private let logger: Logger

  /// - Parameter path: where the file is; its directory must be there.
  init(path: String, logger: Logger) {
    self.path = path
    self.logger = logger
  }

  deinit { self.closeFile() }

  private func closeFile() {
    if self.descriptor >= 0 { close(self.descriptor) }
    self.descriptor = -1
  }

  /// Begins a run: what the file holds, which is then written anew. One that is not ours, or not whole, is put aside.
  ///
  /// - Returns: what the run goes on from. Generations that no file will hold are taken far from those that one may.
  func begin() -> Past {
    let past = self.load()
    // Where something was published that is not known any more, an empty history is not the whole.
    let isLost = past.changes.isEmpty && past.generation > 0
    let isWritten = self.rewrite(past.changes, header: isLost ? Self.abandoned : Self.header)
    // The first change makes a whole one of it.
    if isLost { self.closeFile() }
    return isWritten || !past.changes.isEmpty ? past : .lost
  }

  private func load() -> Past {
    var bytes: ArraySlice<UInt8>
    do {
      bytes = try contents(of: self.path, most: Self.largest, followsLinks: false)[...]
    } catch {
      // One that was put aside may have been the last, where nothing came to be published after it.
      if error.code == ENOENT { return access(self.damagedPath, F_OK) == 0 ? .lost : Past() }
      return self.putAside("cannot be read: \(error)")
    }
    if bytes.elementsEqual(Self.abandoned) {
      self.logger.notice(
        "the history before was not kept, and clients will not resume",
        metadata: ["path": "\(self.path)"])
      return .lost
    }
    guard bytes.starts(with: Self.header) else {
      let isOurs = bytes.starts(with: Self.abandoned)
      return self.putAside(
        isOurs ? "does not hold all that was published" : "is not a history of this version")
    }
    bytes.removeFirst(Self.header.count)
    var past: [Published] = []
    while let record = RecordFrame.take(&bytes) {
      guard let message = record, let published = try? Published(decoding: message) else {
        return self.putAside("has a record that cannot be read")
      }
      if let last = past.last, published.change.generation != last.change.generation + 1 {
        return self.putAside("was not written by one connd")
      }
      past.append(published)
    }
    if !bytes.isEmpty {
      // It was not published: that comes after it is written.
      self.logger.notice(
        "the history ends with half a record, which is cut off",
        metadata: ["path": "\(self.path)", "bytes": "\(bytes.count)"])
    }
    return Past(changes: past.suffix(Store.capacity))
  }

  /// Replaces the file by one that holds just this.
  ///
  /// - Returns: whether that was possible.
  private func rewrite(_ past: [Published], header: [UInt8] = HistoryFile.header) -> Bool {
    let temporary = "\(self.path).new"
    let descriptor = open(
      temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    var bytes = header
    for published in past { bytes += Self.record(of: published) }
    guard descriptor >= 0, RecordFrame.write(bytes, to: descriptor),
      rename(temporary, self.path) == 0
    else {
      self.complain(SystemError())
      if descriptor >= 0 { close(descriptor) }
      // What is half written would only fill a full disk further.
      unlink(temporary)
      return false
    }
    self.closeFile()
    self.descriptor = descriptor
    self.records = past.count
    guard self.hasComplained else { return true }
    self.hasComplained = false
    self.logger.notice("the history is kept again", metadata: ["path": "\(self.path)"])
    return true
  }

  /// Appends records; `past` is what the file is to hold before them if it must be rewritten.
  ///
  /// - Parameter clockSteps: How often the wall clock was set, with which times were moved that the file holds.
  func append(_ changes: [Published], clockSteps: Int = 0, past: () -> [Published]) {
    let isFull = self.records >= Store.capacity + Self.slack || clockSteps != self.clockSteps
    self.clockSteps = clockSteps
    if self.descriptor < 0 || isFull, self.rewrite(past() + changes) { return }
    // One that is too long, and cannot be rewritten, still holds everything.
    guard self.descriptor >= 0, RecordFrame.write(changes.flatMap(Self.record), to: self.descriptor)
    else {
      // A full disk: what is half written must not be followed by anything.
      self.complain(SystemError())
      self.abandon()
      return
    }
    self.records += changes.count
  }

  /// What is published from now on is not in the file, and whoever reads it must not take it for the whole.
  private func abandon() {
    // This needs neither room nor a descriptor.
    if self.descriptor >= 0 { ftruncate(self.descriptor, 0) }
    self.closeFile()
    let descriptor = open(self.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return }
    _ = RecordFrame.write(Self.abandoned, to: descriptor)
    close(descriptor)
  }

  /// Says it once, and not again at each change until it was kept again.
  private func complain(_ error: SystemError) {
    guard !self.hasComplained else { return }
    self.hasComplained = true
    self.logger.error(
      "the history cannot be kept, clients will not resume across a restart",
      metadata: ["path": "\(self.path)", "error": "\(error)"])
  }

  private func putAside(_ why: String) -> Past {
    let isAside = rename(self.path, self.damagedPath) == 0
    self.logger.warning(
      "the history \(why); it \(isAside ? "is" : "cannot be") put aside, and clients will not resume",
      metadata: ["path": "\(self.path)", "aside": "\(self.damagedPath)"])
    return .lost
  }

  private var damagedPath: String { "\(self.path).damaged" }

  /// What earlier runs published.
  struct Past {
    /// The oldest first.
    var changes: [Published] = []
    /// The generation after which to go on where there are no changes.
    var generation: UInt64 = 0

    /// Something was published, and nobody knows what: generations go on far beyond what can have been, below 2^53 for
    /// another 230 years.
    static var lost: Past { Past(generation: UInt64(clamping: Timestamp.now().microseconds)) }
  }
}

extension HistoryFile {
  private static func record(of published: Published) -> [UInt8] {
    RecordFrame.framed(published.message.bytes)
  }
}
