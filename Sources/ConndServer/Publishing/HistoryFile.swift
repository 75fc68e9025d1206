import CLinux
import Connectivity
import Glibc
import LinuxSupport
import Logging

/// Stores published changes across restarts, so that generations never repeat and clients can
/// resume.
///
/// The file begins with a line that names the format. Records (`RecordFrame`) with one message each
/// follow. A record is appended before it is published. An incomplete record after a crash is cut
/// off at the next start. A file that has become too long is replaced atomically. If the file may
/// lack a published change, connd does not use the file, because the missing change may matter. The
/// file stays open, so that a lack of descriptors loses nothing. Not thread-safe.
///
/// Implements rule D5.
final class HistoryFile {
  private static let header = Array("connd history 3\n".utf8)
  /// The header of a file that lacks published changes. It has the same length as the other header,
  /// which it overwrites even on a full disk.
  private static let abandoned = Array("connd history -\n".utf8)
  /// The file is replaced when it has this many more records than the store.
  private static let slack = Store.capacity

  /// The maximum size in bytes. No history is larger, so connd did not write a larger file.
  private static let maxSize = 1 << 26

  private let path: String
  private var descriptor: CInt = -1
  private var records = 0
  private var clockSteps = 0
  /// Whether the loss of the history has been logged.
  private var hasComplained = false
  private let logger: Logger

  /// - Parameter path: The path of the file. Its directory must exist.
  init(path: String, logger: Logger) {
    self.path = path
    self.logger = logger
  }

  deinit { self.closeFile() }

  private func closeFile() {
    if self.descriptor >= 0 { close(self.descriptor) }
    self.descriptor = -1
  }

  /// Begins a run: reads the file and writes it again. An unknown or incomplete file is renamed.
  ///
  /// - Returns: The history that the run continues. If it cannot be stored, the generations are far
  ///   from any that a file may contain.
  func begin() -> Past {
    let past = self.load()
    // If published changes have been lost, an empty history is not complete.
    let isLost = past.changes.isEmpty && past.generation > 0
    let isWritten = self.rewrite(past.changes, header: isLost ? Self.abandoned : Self.header)
    // Appending the first change rewrites the closed file, which is complete then.
    if isLost { self.closeFile() }
    return isWritten || !past.changes.isEmpty ? past : .lost
  }

  private func load() -> Past {
    var bytes: ArraySlice<UInt8>
    do {
      bytes = try contents(of: self.path, max: Self.maxSize, followsLinks: false)[...]
    } catch {
      // If nothing was published since the damaged file was renamed, it is still the latest
      // history.
      if error.code == ENOENT { return access(self.damagedPath, F_OK) == 0 ? .lost : Past() }
      return self.putAside("cannot be read: \(error)")
    }
    if bytes.elementsEqual(Self.abandoned) {
      self.logger.notice(
        "the previous history was not stored, so clients cannot resume",
        metadata: ["path": "\(self.path)"])
      return .lost
    }
    guard bytes.starts(with: Self.header) else {
      let isOurs = bytes.starts(with: Self.abandoned)
      return self.putAside(
        isOurs ? "is incomplete" : "has an unknown format")
    }
    bytes.removeFirst(Self.header.count)
    var past: [Published] = []
    while let record = RecordFrame.take(&bytes) {
      guard let message = record, let published = try? Published(decoding: message) else {
        return self.putAside("has an unreadable record")
      }
      if let last = past.last, published.change.generation != last.change.generation + 1 {
        return self.putAside("has records that are not consecutive")
      }
      past.append(published)
    }
    if !bytes.isEmpty {
      // connd did not publish the incomplete record, because it writes before it publishes.
      self.logger.notice(
        "removed an incomplete record from the end of the history",
        metadata: ["path": "\(self.path)", "bytes": "\(bytes.count)"])
    }
    return Past(changes: past.suffix(Store.capacity))
  }

  /// Replaces the file by a file with only these changes.
  ///
  /// - Returns: Whether that succeeded.
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
      // An incomplete file would only occupy space on a full disk.
      unlink(temporary)
      return false
    }
    self.closeFile()
    self.descriptor = descriptor
    self.records = past.count
    guard self.hasComplained else { return true }
    self.hasComplained = false
    self.logger.notice("the history is stored again", metadata: ["path": "\(self.path)"])
    return true
  }

  /// Appends records. `past` returns the changes before them, for replacing the file.
  ///
  /// - Parameter clockSteps: The number of times that the wall clock was set. Each step shifts the
  ///   times in the file.
  func append(_ changes: [Published], clockSteps: Int = 0, past: () -> [Published]) {
    let isFull = self.records >= Store.capacity + Self.slack || clockSteps != self.clockSteps
    self.clockSteps = clockSteps
    if self.descriptor < 0 || isFull, self.rewrite(past() + changes) { return }
    // A file that is too long and cannot be replaced is still complete.
    guard self.descriptor >= 0, RecordFrame.write(changes.flatMap(Self.record), to: self.descriptor)
    else {
      // The disk may be full. Nothing may follow an incomplete record.
      self.complain(SystemError())
      self.abandon()
      return
    }
    self.records += changes.count
  }

  /// Marks the file as incomplete, because it will lack the next changes.
  private func abandon() {
    // Truncating needs neither space nor another descriptor.
    if self.descriptor >= 0 { ftruncate(self.descriptor, 0) }
    self.closeFile()
    let descriptor = open(self.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return }
    _ = RecordFrame.write(Self.abandoned, to: descriptor)
    close(descriptor)
  }

  /// Logs the error once, until the history can be stored again.
  private func complain(_ error: SystemError) {
    guard !self.hasComplained else { return }
    self.hasComplained = true
    self.logger.error(
      "the history cannot be stored; clients cannot resume after a restart",
      metadata: ["path": "\(self.path)", "error": "\(error)"])
  }

  private func putAside(_ why: String) -> Past {
    let isAside = rename(self.path, self.damagedPath) == 0
    self.logger.warning(
      "the history \(why); it \(isAside ? "was" : "cannot be") renamed, and clients cannot resume",
      metadata: ["path": "\(self.path)", "aside": "\(self.damagedPath)"])
    return .lost
  }

  private var damagedPath: String { "\(self.path).damaged" }

  /// The changes that earlier runs published.
  struct Past {
    /// Oldest first.
    var changes: [Published] = []
    /// The generation to continue after, if `changes` is empty.
    var generation: UInt64 = 0

    /// The state after unknown changes were published. Generations continue far beyond any that can
    /// have been used, and stay below 2^53 for another 230 years.
    static var lost: Past { Past(generation: UInt64(clamping: WallTime.now().microseconds)) }
  }
}

extension HistoryFile {
  private static func record(of published: Published) -> [UInt8] {
    RecordFrame.framed(published.message)
  }
}
