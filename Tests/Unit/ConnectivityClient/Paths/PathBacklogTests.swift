import Connectivity
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Path backlog")
struct PathBacklogTests {
  private static let wifi = NetworkPath(PathSample.wifi, family: .ipv4)
  private static let cellular = NetworkPath(PathSample.cellular, family: .ipv4)
  private static let noCarrier = NetworkPath(PathSample.noCarrier, family: .ipv4)
  private static let noRoute = NetworkPath(PathSample.none, family: .ipv4)

  /// A reader that has read `told`, misses `missed`, and then reads the rest.
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
      // T2: the messages show the loss, not the speed of the reader.
      (wifi, [noCarrier, wifi], [noCarrier, wifi]),
      (wifi, [.interrupted, wifi], [.interrupted, wifi]),
      (wifi, [noCarrier, cellular, noRoute, cellular, wifi], [noRoute, wifi]),
      (.unknown, [.interrupted, wifi], [.interrupted, wifi]),
      // A loss that was reported already is not repeated.
      (noCarrier, [.interrupted, wifi], [wifi]),
      (noCarrier, [wifi, noCarrier, wifi], [wifi]),
      (noCarrier, [wifi, noCarrier], []),
      (noCarrier, [noRoute], [noRoute]),
      // An unknown path is not a loss.
      (wifi, [.unknown, wifi], []),
      (wifi, [noCarrier, .unknown], [noCarrier, .unknown]),
    ] as [(NetworkPath?, [NetworkPath], [NetworkPath])])
  func slow(told: NetworkPath?, missed: [NetworkPath], read: [NetworkPath]) {
    #expect(Self.read(after: told, missed: missed) == read)
  }

  @Test("a path equal to the last reported one is not repeated")
  func repetition() {
    #expect(Self.read(after: Self.wifi, missed: [Self.wifi]) == [])
    #expect(Self.read(after: Self.noRoute, missed: [Self.noRoute]) == [])
    #expect(Self.read(after: .unknown, missed: [.unknown]) == [])
  }

  @Test("a waiting reader gets the first path immediately, and the rest after it")
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

  @Test("nothing is delivered after the end, and waiting readers return")
  func end() async {
    let mailbox = PathMailbox()
    async let next = mailbox.next()
    mailbox.finish()
    #expect(await next == nil)
    mailbox.put([Self.wifi])
    #expect(await mailbox.next() == nil)
  }
}
