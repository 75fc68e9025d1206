import CLinux
import Connectivity
import Glibc
import LinuxSupport
import Logging

/// Stores published changes across restarts, so that generations never repeat and clients can
/// resume.
///
/// The file begins with a ``Header``. Records (`RecordFrame`) with one message each follow. Changes
/// are appended after they are published, and before later ones are. After a crash the file may
/// lack the last of them, so the next run leaves out their generations. An incomplete record is cut
/// off at the next start. A file that has become too long is replaced atomically. If the file may
/// lack other published changes, connd does not use the file, because a missing change may matter.
/// The file stays open, so that a lack of descriptors loses nothing. Not thread-safe.
///
/// Implements rule D5.
final class HistoryFile {
  /// The first line: the format, and what the file lacks. All headers have the same length, so that
  /// one replaces another even on a full disk.
  private struct Header {
    enum State: Character {
      /// The run ended in order, and the file has all its changes.
      case complete = "="
      /// The file may lack the changes that were published last.
      case running = "+"
      /// The file lacks published changes.
      case abandoned = "-"
    }

    var state: State
    /// The generation after which the run began.
    var start: UInt64

    static let count = 36
    private static let format = "connd history 4 "

    init(_ state: State, start: UInt64) {
      (self.state, self.start) = (state, start)
    }

    init?(_ bytes: ArraySlice<UInt8>) {
      let line = String(decoding: bytes.prefix(Self.count), as: UTF8.self)
      guard line.utf8.count == Self.count, line.hasPrefix(Self.format), line.hasSuffix("\n"),
        let state = line.dropFirst(Self.format.count).first.flatMap(State.init),
        let start = UInt64(line.dropFirst(Self.format.count + 1).dropLast(), radix: 16)
      else { return nil }
      self.init(state, start: start)
    }

    var bytes: [UInt8] {
      let digits = String(self.start, radix: 16)
      let zeros = String(repeating: "0", count: Self.count - Self.format.count - 2 - digits.count)
      return Array("\(Self.format)\(self.state.rawValue)\(zeros)\(digits)\n".utf8)
    }
  }

  /// The maximum number of changes that are published before they are stored: a change and its
  /// invalidations.
  private static let maxUnstored: UInt64 = 64
  /// The file is replaced when it has this many more records than the store.
  private static let slack = Store.capacity

  /// The maximum size in bytes. No history is larger, so connd did not write a larger file.
  private static let maxSize = 1 << 26

  private let path: String
  private var descriptor: CInt = -1
  private var records = 0
  private var start: UInt64 = 0
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
    self.start = past.generation
    let isWritten = self.rewrite(past.changes, isLost ? .abandoned : .running)
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
    let header = Header(bytes)
    if header?.state == .abandoned, bytes.count == Header.count {
      self.logger.notice(
        "the previous history was not stored, so clients cannot resume",
        metadata: ["path": "\(self.path)"])
      return .lost
    }
    guard let header, header.state != .abandoned else {
      return self.putAside(header == nil ? "has an unknown format" : "is incomplete")
    }
    bytes.removeFirst(Header.count)
    var past: [Published] = []
    var last = header.start
    while let record = RecordFrame.take(&bytes) {
      do {
        guard let message = record else { throw UnexpectedMessage() }
        let published = try Published(decoding: message)
        if let previous = past.last, published.change.generation <= previous.change.generation {
          return self.putAside("has records in the wrong order")
        }
        past.append(published)
      } catch let change as UnknownChange {
        // A newer connd has run before this one. Clients that resume before the change get a gap.
        past = []
        last = max(last, change.generation)
      } catch {
        return self.putAside("has an unreadable record")
      }
    }
    if !bytes.isEmpty {
      self.logger.notice(
        "removed an incomplete record from the end of the history",
        metadata: ["path": "\(self.path)", "bytes": "\(bytes.count)"])
    }
    last = max(last, past.last?.change.generation ?? 0)
    return Past(
      changes: past.suffix(Store.capacity),
      generation: header.state == .complete ? last : last &+ Self.maxUnstored)
  }

  /// Replaces the file by a file with only these changes.
  ///
  /// - Returns: Whether that succeeded.
  private func rewrite(_ past: [Published], _ state: Header.State = .running) -> Bool {
    let temporary = "\(self.path).new"
    let descriptor = open(
      temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    var bytes = Header(state, start: self.start).bytes
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

  /// Appends records of changes that were just published. `past` returns the changes before them,
  /// for replacing the file.
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

  /// Notes that the run ends in order. Nothing is published afterwards.
  func finish() { if self.descriptor >= 0 { self.mark(.complete) } }

  /// Marks the file as incomplete, because it will lack the next changes.
  private func abandon() {
    // Truncating needs neither space nor another descriptor.
    if self.descriptor >= 0 { ftruncate(self.descriptor, 0) }
    self.mark(.abandoned)
  }

  private func mark(_ state: Header.State) {
    self.closeFile()
    // The descriptor for appending cannot write elsewhere.
    let descriptor = open(self.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return }
    _ = RecordFrame.write(Header(state, start: self.start).bytes, to: descriptor)
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
    /// The generation to continue after. Earlier runs used none above it.
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
