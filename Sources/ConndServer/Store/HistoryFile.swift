import CLinux
import Glibc
import Logging

/// Keeps what was published across restarts: generations never repeat, and clients resume.
///
/// The file is a log of records, each the length and the checksum of a message and the message itself, behind a line that
/// names the format. A record is appended before it is published. What a crash leaves half written is cut off at the next
/// start, and the file is rewritten in one step whenever it has become too long. Not thread-safe.
final class HistoryFile {
  private static let header = Array("connd history 1\n".utf8)
  /// The file is rewritten when it has so many records more than the store holds.
  private static let slack = Store.capacity

  private let path: String
  private var descriptor: CInt = -1
  private var records = 0
  /// It was said that the history cannot be kept.
  private var hasComplained = false
  private let logger: Logger

  /// - Parameter path: where the file is; its directory must be there.
  init(path: String, logger: Logger) {
    self.path = path
    self.logger = logger
  }

  deinit {
    if self.descriptor >= 0 { close(self.descriptor) }
  }

  /// What the file holds, the oldest first; nothing if there is none. One that is not ours is put aside.
  func load() -> [Published] {
    guard let bytes = Self.contents(of: self.path) else { return [] }
    guard bytes.starts(with: Self.header) else {
      self.putAside("is not a history of this version")
      return []
    }
    var past: [Published] = []
    var reader = bytes[Self.header.count...]
    while let message = Self.record(&reader) {
      guard let published = try? Published(decoding: message) else {
        self.putAside("has a record that cannot be read")
        break
      }
      // Generations grow by one; what does not follow was not written by one connd.
      if let last = past.last, published.change.generation != last.change.generation + 1 {
        past = []
      }
      past.append(published)
    }
    if !reader.isEmpty {
      self.logger.notice(
        "the end of the history is damaged and was cut off",
        metadata: ["path": "\(self.path)", "bytes": "\(reader.count)"])
    }
    return past.suffix(Store.capacity)
  }

  /// Replaces the file by one that holds just this.
  func rewrite(_ past: [Published]) {
    let temporary = "\(self.path).new"
    let descriptor = open(
      temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    var bytes = Self.header
    for published in past { bytes += Self.record(of: published) }
    guard descriptor >= 0, Self.write(bytes, to: descriptor), rename(temporary, self.path) == 0
    else {
      self.complain(SystemError())
      if descriptor >= 0 { close(descriptor) }
      // What is half written would only fill a full disk further.
      unlink(temporary)
      return
    }
    if self.descriptor >= 0 { close(self.descriptor) }
    self.descriptor = descriptor
    self.records = past.count
    guard self.hasComplained else { return }
    self.hasComplained = false
    self.logger.notice("the history is kept again", metadata: ["path": "\(self.path)"])
  }

  /// Appends records; `past` is what the file is to hold before them if it must be rewritten.
  func append(_ changes: [Published], past: () -> [Published]) {
    guard self.descriptor >= 0, self.records < Store.capacity + Self.slack else {
      self.rewrite(past() + changes)
      return
    }
    if Self.write(changes.flatMap(Self.record), to: self.descriptor) {
      self.records += changes.count
    } else {
      // A full disk: what is half written must not be followed by anything.
      self.complain(SystemError())
      close(self.descriptor)
      self.descriptor = -1
    }
  }

  /// Says it once, and not again at each change until it was kept again.
  private func complain(_ error: SystemError) {
    guard !self.hasComplained else { return }
    self.hasComplained = true
    self.logger.error(
      "the history cannot be kept, clients will not resume across a restart",
      metadata: ["path": "\(self.path)", "error": "\(error)"])
  }

  private func putAside(_ why: String) {
    self.logger.warning(
      "the file \(why); it is put aside",
      metadata: ["path": "\(self.path)", "kept": "\(self.path).damaged"])
    rename(self.path, "\(self.path).damaged")
  }
}

// MARK: - Records

extension HistoryFile {
  private static func record(of published: Published) -> [UInt8] {
    let message = published.message.bytes
    return bytes(UInt32(message.count)) + bytes(checksum(message)) + message
  }

  /// Takes a record off the front; `nil` if there is no whole one.
  private static func record(_ reader: inout ArraySlice<UInt8>) -> [UInt8]? {
    guard reader.count >= 8 else { return nil }
    let length = Int(number(reader.prefix(4)))
    let expected = number(reader.dropFirst(4).prefix(4))
    guard length <= reader.count - 8 else { return nil }
    let message = Array(reader.dropFirst(8).prefix(length))
    guard checksum(message) == expected else { return nil }
    reader = reader.dropFirst(8 + length)
    return message
  }

  private static func bytes(_ number: UInt32) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian) { Array($0) }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// FNV-1a: it tells a torn record from a whole one, which is all that is asked of it.
  private static func checksum(_ bytes: [UInt8]) -> UInt32 {
    bytes.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
  }

  private static func contents(of path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    // No history is larger; a file that is, is not ours.
    while bytes.count < 1 << 26 {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += buffer[..<count]
    }
    return bytes
  }

  private static func write(_ bytes: [UInt8], to descriptor: CInt) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
