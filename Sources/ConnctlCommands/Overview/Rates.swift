/// The kernel's counters of each link, and their growth.
struct Rates: Hashable, Sendable {
  /// The bytes that a link has received and sent.
  struct Octets: Hashable, Sendable {
    var received: UInt64
    var sent: UInt64
  }

  /// The bytes per second since the previous reading, by link name. Empty after the first reading.
  private(set) var perSecond: [String: Octets] = [:]
  private var last: (octets: [String: Octets], time: ContinuousClock.Instant)?

  static func == (left: Rates, right: Rates) -> Bool { left.perSecond == right.perSecond }
  func hash(into hasher: inout Hasher) { hasher.combine(self.perSecond) }

  /// Adds a reading of the counters.
  mutating func take(_ octets: [String: Octets], at time: ContinuousClock.Instant) {
    defer { self.last = (octets, time) }
    guard let last = self.last else { return }
    let seconds = last.time.duration(to: time) / .seconds(1)
    guard seconds > 0 else { return }
    self.perSecond = octets.reduce(into: [:]) { rates, entry in
      // Decreased counters belong to a new link with the same name.
      guard let before = last.octets[entry.key], entry.value.received >= before.received,
        entry.value.sent >= before.sent
      else { return }
      rates[entry.key] = Octets(
        received: Self.rate(entry.value.received - before.received, seconds),
        sent: Self.rate(entry.value.sent - before.sent, seconds))
    }
  }

  private static func rate(_ octets: UInt64, _ seconds: Double) -> UInt64 {
    UInt64(min(Double(octets) / seconds, 1e18).rounded())
  }

  /// Discards the readings, because nothing was shown for a while and the rate would be outdated.
  mutating func forget() { (self.perSecond, self.last) = ([:], nil) }
}

extension Rates.Octets {
  /// Parses /proc/net/dev (proc_net(5)): one line for each link. Names contain no colon and no
  /// space (dev_valid_name in the kernel's net/core/dev.c).
  static func reading(_ file: some Collection<UInt8>) -> [String: Rates.Octets] {
    var links: [String: Rates.Octets] = [:]
    // Split as bytes, because a combining character in a name would merge with the preceding
    // character.
    for line in file.split(separator: UInt8(ascii: "\n")).dropFirst(2) {
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
      let name = line[..<colon].drop { $0 == UInt8(ascii: " ") }
      let numbers = line[colon...].dropFirst().split(separator: UInt8(ascii: " ")).map {
        UInt64(String(decoding: $0, as: UTF8.self))
      }
      guard numbers.count >= 16, let received = numbers[0], let sent = numbers[8] else { continue }
      links[String(decoding: name, as: UTF8.self)] = Rates.Octets(received: received, sent: sent)
    }
    return links
  }
}

extension UInt64 {
  /// The rate in at most eight columns: `999 B/s`, `1.2 kB/s`, `34 MB/s`.
  var rateText: String {
    var (value, unit) = (Double(self), 0)
    let units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"]
    while value >= 999.5, unit < units.count - 1 { (value, unit) = (value / 1000, unit + 1) }
    if unit == 0 { return "\(self) B/s" }
    guard value < 9.95 else { return "\(Int(value.rounded())) \(units[unit])" }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10) \(units[unit])"
  }
}
