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

  private func load() -> [UInt64] {
    HistoryFile(path: self.path, logger: self.logger).load().changes.map(\.change.generation)
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

  @Test("what was appended is there again, in order and complete")
  func roundTrip() throws {
    let changes = try StoreTests.changes(5)
    let history = HistoryFile(path: self.path, logger: self.logger)
    history.rewrite(Array(changes[..<2]))
    for change in changes[2...] { history.append([change], past: { [] }) }
    let loaded = HistoryFile(path: self.path, logger: self.logger).load()
    #expect(loaded.changes.map(\.change) == changes.map(\.change))
    #expect(loaded.changes.map(\.message) == changes.map(\.message))
  }

  @Test("every truncation loses the last records and no others")
  func truncation() throws {
    HistoryFile(path: self.path, logger: self.logger).rewrite(try StoreTests.changes(3))
    let whole = try self.bytes()
    var counts: [Int] = []
    for length in stride(from: whole.count, through: "connd history 1\n".utf8.count, by: -7) {
      try self.write(whole.prefix(length))
      let generations = self.load()
      #expect(generations == Array([1, 2, 3].prefix(generations.count)))
      counts.append(generations.count)
    }
    #expect(counts.first == 3 && counts.last == 0)
    #expect(counts == counts.sorted(by: >))
  }

  @Test(
    "D5 of a file that is damaged or foreign nothing is used, and generations are none that were",
    arguments: ["record", "header", "empty", "foreign", "gap", "link", "abandoned"])
  func damage(_ what: String) throws {
    let changes = try StoreTests.changes(4)
    HistoryFile(path: self.path, logger: self.logger).rewrite(Array(changes.prefix(3)))
    var bytes = try self.bytes()
    switch what {
    // A flipped bit in the middle record: what follows it cannot be all.
    case "record": bytes[bytes.count / 2] ^= 0xff
    case "header": bytes = Array(bytes.prefix(9))
    case "empty": bytes = []
    // The disk was full: there was more.
    case "abandoned": bytes.replaceSubrange(0..<16, with: "connd history -\n".utf8)
    case "gap":
      HistoryFile(path: self.path, logger: self.logger).rewrite([changes[0], changes[3]])
      bytes = try self.bytes()
    default: bytes = Array("somebody's diary\n".utf8)
    }
    try self.write(bytes)
    if what == "link" {
      #expect(rename(self.path, "\(self.path).elsewhere") == 0)
      #expect(symlink("\(self.path).elsewhere", self.path) == 0)
    }
    let past = HistoryFile(path: self.path, logger: self.logger).load()
    #expect(past.changes.isEmpty)
    #expect(past.generation > 1 << 50 && past.generation < 1 << 53)
    // Put aside, not overwritten.
    var file = stat()
    #expect(lstat(self.path, &file) != 0)
    #expect(lstat("\(self.path).damaged", &file) == 0)
  }

  @Test("the file does not grow for ever")
  func bounded() throws {
    let changes = try StoreTests.changes(4 * Store.capacity)
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
    let record = try #require(changes.map(\.message.bytes.count).max()) + 8
    #expect(largest <= 16 + record * (2 * Store.capacity + 1))
    #expect(
      self.load().suffix(Store.capacity)
        == changes.suffix(Store.capacity).map(\.change.generation)[...])
  }

  @Test("a directory that cannot be written loses the history and nothing else")
  func unwritable() throws {
    let changes = try StoreTests.changes(2)
    let history = HistoryFile(path: "/nonexistent/connd.history", logger: self.logger)
    #expect(history.load().changes.isEmpty)
    history.rewrite([])
    for change in changes { history.append([change], past: { [] }) }
  }
}
