import Testing

@testable import ConnctlCommands

@Suite("Bytes per second")
struct RatesTests {
  private let start = ContinuousClock.now

  private static let file = """
    Inter-|   Receive                                                |  Transmit
     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
        lo:  123456     100    0    0    0     0          0         0   123456     100    0    0    0     0       0          0
    wlan0: 18446744073709551615 1 0 0 0 0 0 0 42 1 0 0 0 0 0 0
    \u{301}x\u{1B}: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0
    broken: 1 2
    nonsense

    """

  @Test("/proc/net/dev is read as octets, and invalid lines are skipped")
  func file() {
    let octets = Rates.Octets.reading(Array(Self.file.utf8))
    #expect(
      octets == [
        "lo": .init(received: 123_456, sent: 123_456), "wlan0": .init(received: .max, sent: 42),
        "\u{301}x\u{1B}": .init(received: 1, sent: 2),
      ])
    #expect(Rates.Octets.reading([]).isEmpty)
  }

  @Test("this machine's file is read")
  func here() throws {
    #expect(try #require(LinkCounters.read())["lo"] != nil)
  }

  @Test("a rate is the growth between two readings")
  func rates() {
    var rates = Rates()
    rates.take(["eth0": .init(received: 1000, sent: 0)], at: self.start)
    #expect(rates.perSecond.isEmpty)
    rates.take(
      ["eth0": .init(received: 5000, sent: 3), "new": .init(received: 1, sent: 1)],
      at: self.start.advanced(by: .seconds(2)))
    #expect(rates.perSecond == ["eth0": .init(received: 2000, sent: 2)])
    // A smaller count is that of another link with the same name.
    rates.take(
      ["eth0": .init(received: 10, sent: 3)], at: self.start.advanced(by: .seconds(4)))
    #expect(rates.perSecond.isEmpty)
  }

  @Test("bytes counted while the view was not shown are not a rate")
  func forget() {
    var rates = Rates()
    rates.take(["eth0": .init(received: 0, sent: 0)], at: self.start)
    rates.forget()
    rates.take(
      ["eth0": .init(received: 9_000_000, sent: 0)], at: self.start.advanced(by: .seconds(600)))
    #expect(rates.perSecond.isEmpty)
  }

  @Test(
    "a rate takes at most eight columns",
    arguments: [
      (0, "0 B/s"), (999, "999 B/s"), (1000, "1.0 kB/s"), (1249, "1.2 kB/s"), (9949, "9.9 kB/s"),
      (9950, "10 kB/s"), (999_499, "999 kB/s"), (999_500, "1.0 MB/s"), (125_000_000, "125 MB/s"),
      (1_000_000_000_000_000_000, "1.0 EB/s"), (.max, "18 EB/s"),
    ] as [(UInt64, String)])
  func words(rate: UInt64, words: String) {
    #expect(rate.rateText == words)
    #expect(words.count <= 8)
  }
}
