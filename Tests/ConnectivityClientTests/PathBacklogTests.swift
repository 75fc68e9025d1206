import Connectivity
import Testing

@testable import ConnectivityClient

@Suite("What is told to a reader")
struct PathBacklogTests {
  private static let wifi = NetworkPath(PathSample.wifi, family: .ipv4)
  private static let cellular = NetworkPath(PathSample.cellular, family: .ipv4)
  private static let noCarrier = NetworkPath(PathSample.noCarrier, family: .ipv4)
  private static let noRoute = NetworkPath(PathSample.none, family: .ipv4)

  /// A reader who has read `told`, misses `missed`, and then reads all there is.
  private static func read(after told: NetworkPath?, missed: [NetworkPath]) -> [NetworkPath] {
    var backlog = PathBacklog()
    if let told {
      backlog.add(told)
      #expect(backlog.next() == told)
    }
    for path in missed { backlog.add(path) }
    var read: [NetworkPath] = []
    while let path = backlog.next() { read.append(path) }
    return read
  }

  @Test(
    "a slow reader gets the latest path, and the last loss before it",
    arguments: [
      (nil, [wifi, cellular], [cellular]),
      (nil, [wifi, noCarrier, cellular], [cellular]),
      (nil, [wifi, noCarrier], [noCarrier]),
      (wifi, [cellular], [cellular]),
      (wifi, [cellular, wifi], []),
      (wifi, [noCarrier], [noCarrier]),
      (wifi, [noCarrier, noRoute, cellular], [noRoute, cellular]),
      // T2 the messages are the evidence, not the speed of the reader.
      (wifi, [noCarrier, wifi], [noCarrier, wifi]),
      (wifi, [.interrupted, wifi], [.interrupted, wifi]),
      (wifi, [noCarrier, cellular, noRoute, cellular, wifi], [noRoute, wifi]),
      (.unknown, [.interrupted, wifi], [.interrupted, wifi]),
      // A loss that is told already need not be told twice.
      (noCarrier, [.interrupted, wifi], [wifi]),
      (noCarrier, [wifi, noCarrier, wifi], [wifi]),
      (noCarrier, [wifi, noCarrier], []),
      (noCarrier, [noRoute], [noRoute]),
      // Not to know is no loss.
      (wifi, [.unknown, wifi], []),
      (wifi, [noCarrier, .unknown], [noCarrier, .unknown]),
    ] as [(NetworkPath?, [NetworkPath], [NetworkPath])])
  func slow(told: NetworkPath?, missed: [NetworkPath], read: [NetworkPath]) {
    #expect(Self.read(after: told, missed: missed) == read)
  }

  @Test("what equals the path told last is not told")
  func repetition() {
    #expect(Self.read(after: Self.wifi, missed: [Self.wifi]) == [])
    #expect(Self.read(after: Self.noRoute, missed: [Self.noRoute]) == [])
    #expect(Self.read(after: .unknown, missed: [.unknown]) == [])
  }

  @Test("who waits gets the first of what is put at once, and the rest after it")
  func waiting() async {
    let mailbox = PathMailbox()
    mailbox.put([Self.wifi])
    #expect(await mailbox.next() == Self.wifi)
    async let next = mailbox.next()
    mailbox.put([Self.wifi])
    mailbox.put([.interrupted, Self.wifi])
    #expect(await next == .interrupted)
    #expect(await mailbox.next() == Self.wifi)
  }

  @Test("nothing is told after the end, whoever waits")
  func end() async {
    let mailbox = PathMailbox()
    async let next = mailbox.next()
    mailbox.finish()
    #expect(await next == nil)
    mailbox.put([Self.wifi])
    #expect(await mailbox.next() == nil)
  }
}
