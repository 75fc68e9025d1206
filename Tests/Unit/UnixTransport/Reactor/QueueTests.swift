import LinuxSupport
import Testing

@testable import UnixTransport

// Serialized, because the memory of the whole process is measured.
@Suite("Queue", .serialized)
struct QueueTests {
  /// A large element, so that few need much memory.
  private struct Page {
    var bytes: InlineArray<4096, UInt8> = .init(repeating: 1)
  }

  /// 128 MiB: much more than other tests use at the same time.
  private static let pages = 32_768

  /// The resident memory of this process, in bytes.
  private static func resident() throws -> Int {
    let statm = try contents(of: "/proc/self/statm", max: 256)
    let pages = String(decoding: statm, as: UTF8.self).split(separator: " ")[1]
    return try #require(Int(pages)) * 4096
  }

  @Test(
    "D4 a queue was large and becomes empty → its memory is returned",
    arguments: ["one by one", "all at once", "by a predicate"])
  func release(how: String) throws {
    var queue = Queue<Page>()
    for _ in 0..<Self.pages { queue.append(Page()) }
    let full = try Self.resident()
    switch how {
    case "one by one": while queue.popFirst() != nil {}
    case "all at once": _ = queue.popFirst(Self.pages).count
    default: _ = queue.remove { $0.bytes[0] == 1 }.count
    }
    #expect(queue.isEmpty)
    #expect(try full - Self.resident() > Self.pages * 4096 / 2)
    queue.append(Page())
    #expect(queue.count == 1)
  }

  @Test("elements leave in the order in which they came")
  func order() {
    var queue = Queue<Int>()
    queue.append(contentsOf: 3...100)
    queue.prepend(contentsOf: [1, 2])
    #expect(queue.popFirst() == 1)
    #expect(queue.popFirst(3) == [2, 3, 4])
    #expect(queue.remove { $0 % 2 == 0 } == Array(stride(from: 6, through: 100, by: 2)))
    #expect(queue.popFirst(1000) == Array(stride(from: 5, through: 99, by: 2)))
    #expect(queue.popFirst() == nil && queue.popFirst(2) == [] && queue.isEmpty)
  }

  @Test("D4 a user's burst has had its turns → the fair queue returns its memory")
  func fairShare() throws {
    for users in 1...2 {
      var share = FairShare<Int, Page>()
      for place in 0..<Self.pages { share.append(Page(), of: place % users) }
      let full = try Self.resident()
      while let turn = share.popFirst() { share.charge(.microseconds(1), to: turn.user) }
      #expect(try full - Self.resident() > Self.pages * 4096 / 2)
    }
  }
}
