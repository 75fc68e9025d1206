import Connectivity
import Glibc
import Logging
import TestKit
import Testing

@testable import ConndServer

@Suite("History file")
struct HistoryFileTests {
  private let directory: TemporaryDirectory
  private var path: String { "\(self.directory.path)/connd.history" }
  private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

  init() throws {
    self.directory = try TemporaryDirectory()
  }

  private static let headerLength = "connd history 4 +0000000000000000\n".utf8.count

  private var file: HistoryFile { HistoryFile(path: self.path, logger: self.logger) }

  private func load() -> [UInt64] { self.file.begin().changes.map(\.change.generation) }

  /// Writes a file that holds exactly these changes.
  private func keep(_ changes: [Published]) {
    self.file.append(Array(changes.suffix(1)), past: { changes.dropLast() })
  }

  private func bytes() throws -> [UInt8] {
    let file = try #require(fopen(self.path, "r"))
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return Array(bytes[..<count])
  }

  private func write(_ bytes: some Collection<UInt8>) throws {
    let file = try #require(fopen(self.path, "w"))
    defer { fclose(file) }
    #expect(fwrite(Array(bytes), 1, bytes.count, file) == bytes.count)
  }

  @Test("appended changes are read back in order and complete")
  func roundTrip() throws {
    let changes = StoreTests.changes(5)
    let history = HistoryFile(path: self.path, logger: self.logger)
    history.append([changes[1]], past: { [changes[0]] })
    for change in changes[2...] { history.append([change], past: { [] }) }
    let loaded = self.file.begin()
    #expect(loaded.changes.map(\.change) == changes.map(\.change))
    #expect(loaded.changes.map(\.message) == changes.map(\.message))
  }

  @Test("D5 a run that was killed → the next one uses no generation that it may have published")
  func killed() throws {
    #expect(self.file.begin().generation == 0)
    self.keep(StoreTests.changes(3))
    let past = self.file.begin()
    #expect(past.changes.count == 3 && past.generation == 67)
    // Killed before it has stored anything.
    #expect(self.file.begin().generation == 131)
    let last = self.file
    #expect(last.begin().generation == 195)
    last.finish()
    #expect(self.file.begin().generation == 195)
  }

  @Test("a newer connd stored a change of an unknown kind → the history begins after it")
  func unknownKind() throws {
    let changes = StoreTests.changes(3)
    self.keep(changes)
    // The generation 2, and an event by the unknown number 99.
    let unknown: [UInt8] = [0x08, 2, 0x9A, 0x06, 0]
    let records = changes.map { RecordFrame.framed($0.message) }
    let header = try self.bytes().dropLast(records.map(\.count).reduce(0, +))
    let head = header + records[0] + RecordFrame.framed(unknown)
    try self.write(head + records[2])
    #expect(self.load() == [3])
    try self.write(head)
    let past = self.file.begin()
    #expect(past.changes.isEmpty && past.generation >= 2)
  }

  @Test("every truncation loses the last records and no others")
  func truncation() throws {
    self.keep(StoreTests.changes(3))
    let whole = try self.bytes()
    var counts: [Int] = []
    for length in stride(from: whole.count, through: Self.headerLength, by: -7) {
      try self.write(whole.prefix(length))
      let generations = self.load()
      #expect(generations == Array([1, 2, 3].prefix(generations.count)))
      counts.append(generations.count)
    }
    #expect(counts.first == 3 && counts.last == 0)
    #expect(counts == counts.sorted(by: >))
  }

  @Test(
    "D5 a damaged or foreign file → nothing of it is used, and no generation is used twice",
    arguments: ["record", "length", "header", "empty", "foreign", "order", "link", "abandoned"])
  func damage(_ what: String) throws {
    let changes = StoreTests.changes(4)
    self.keep(Array(changes.prefix(3)))
    var bytes = try self.bytes()
    switch what {
    // A flipped bit in the middle record: what follows may be incomplete.
    case "record": bytes[bytes.count / 2] ^= 0xff
    // A length beyond the end looks like a record that was cut off.
    case "length": bytes[Self.headerLength + 2] ^= 0x40
    case "header": bytes = Array(bytes.prefix(9))
    case "empty": bytes = []
    // The disk was full, so changes are missing.
    case "abandoned": bytes[Self.headerLength - 18] = UInt8(ascii: "-")
    case "order":
      self.keep([changes[3], changes[0]])
      bytes = try self.bytes()
    default: bytes = Array("somebody's diary\n".utf8)
    }
    try self.write(bytes)
    if what == "link" {
      #expect(rename(self.path, "\(self.path).elsewhere") == 0)
      #expect(symlink("\(self.path).elsewhere", self.path) == 0)
    }
    let damaged = what == "link" ? [] : try self.bytes()
    let past = self.file.begin()
    #expect(past.changes.isEmpty)
    #expect(past.isFarFromAny)
    // The file is put aside, not overwritten.
    var file = stat()
    #expect(lstat("\(self.path).damaged", &file) == 0)
    if what != "link" {
      #expect(rename("\(self.path).damaged", self.path) == 0)
      #expect(try self.bytes() == damaged)
    }
  }

  @Test("D5 a lost history, and nothing published since → generations do not begin at 1")
  func lostAndNothingPublished() throws {
    try self.write(Array("somebody's diary\n".utf8))
    #expect(self.file.begin().isFarFromAny)
    #expect(self.file.begin().isFarFromAny)
    // Also if connd ended between putting the file aside and writing a new one.
    #expect(unlink(self.path) == 0)
    #expect(self.file.begin().isFarFromAny)
    self.keep(StoreTests.changes(2))
    #expect(self.load() == [1, 2])
  }

  @Test("D5 changes that cannot be stored get generations that no file will contain")
  func neverKept() throws {
    let nowhere = HistoryFile(path: "/nonexistent/connd.history", logger: self.logger)
    #expect(nowhere.begin().isFarFromAny)
    #expect(self.file.begin().generation == 0)
  }

  @Test(
    "the file is open from the start → the first change is stored even without free descriptors")
  func open() throws {
    let changes = StoreTests.changes(1)
    let history = self.file
    #expect(history.begin().generation == 0)
    // A file opened only now would be another one.
    let elsewhere = "\(self.path).elsewhere"
    #expect(rename(self.path, elsewhere) == 0)
    history.append(changes, past: { [] })
    #expect(rename(elsewhere, self.path) == 0)
    #expect(self.load() == [1])
  }

  @Test("the file does not grow without bound")
  func bounded() throws {
    let changes = StoreTests.changes(4 * Store.capacity)
    let history = HistoryFile(path: self.path, logger: self.logger)
    var held: [Published] = []
    var largest = 0
    for change in changes {
      history.append([change], past: { held })
      held = Array((held + [change]).suffix(Store.capacity))
      var file = stat()
      #expect(stat(self.path, &file) == 0)
      largest = max(largest, Int(file.st_size))
    }
    let record = try #require(changes.map(\.message.count).max()) + 12
    #expect(largest <= Self.headerLength + record * (2 * Store.capacity + 1))
    #expect(
      self.load().suffix(Store.capacity)
        == changes.suffix(Store.capacity).map(\.change.generation)[...])
  }

  @Test("an unwritable directory → only the history is lost")
  func unwritable() throws {
    let changes = StoreTests.changes(2)
    let history = HistoryFile(path: "/nonexistent/connd.history", logger: self.logger)
    #expect(history.begin().changes.isEmpty)
    for change in changes { history.append([change], past: { [] }) }
  }
}

extension HistoryFile.Past {
  /// Whether generations continue far beyond any that may have been published.
  fileprivate var isFarFromAny: Bool { self.generation > 1 << 50 && self.generation < 1 << 53 }
}
