#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// A time of the wall clock, in microseconds.
public struct WallTime: Hashable, Sendable, Comparable {
  /// Microseconds since 1970-01-01T00:00:00Z.
  public var microseconds: Int64

  public init(microseconds: Int64) {
    self.microseconds = microseconds
  }

  public static func < (lhs: Self, rhs: Self) -> Bool { lhs.microseconds < rhs.microseconds }

  /// Returns the later time, limited to the last one that can be represented.
  package func advanced(by duration: Duration) -> WallTime {
    let (seconds, attoseconds) = duration.components
    let whole = seconds.multipliedReportingOverflow(by: 1_000_000)
    let rest = attoseconds / 1_000_000_000_000
    let sum = self.microseconds.addingReportingOverflow(whole.partialValue + rest)
    return WallTime(microseconds: whole.overflow || sum.overflow ? .max : sum.partialValue)
  }

  /// Returns the time from this one to another.
  package func duration(to other: WallTime) -> Duration {
    .microseconds(other.microseconds.subtractingReportingOverflow(self.microseconds).partialValue)
  }
}

extension WallTime: CustomStringConvertible {
  /// The time in UTC, in the format of RFC 3339: `2026-11-21T01:25:00.123456Z`.
  public var description: String {
    let (seconds, fraction) = self.microseconds.floorDivided(by: 1_000_000)
    var time = time_t(seconds)
    var date = tm()
    gmtime_r(&time, &date)
    let year = padded(Int(date.tm_year) + 1900, 4)
    let day = "\(year)-\(padded(Int(date.tm_mon) + 1, 2))-\(padded(Int(date.tm_mday), 2))"
    let clock =
      "\(padded(Int(date.tm_hour), 2)):\(padded(Int(date.tm_min), 2)):\(padded(Int(date.tm_sec), 2))"
    return "\(day)T\(clock).\(padded(Int(fraction), 6))Z"
  }
}

extension Int64 {
  fileprivate func floorDivided(by divisor: Int64) -> (Int64, Int64) {
    let (quotient, remainder) = self.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
}

private func padded(_ number: Int, _ width: Int) -> String {
  let digits = String(number)
  return String(repeating: "0", count: max(0, width - digits.count)) + digits
}

/// A time of a monotonic clock, or of virtual time in tests.
package struct Instant: Hashable, Sendable, InstantProtocol {
  /// The time since a start that all instants of one clock share.
  package var sinceStart: Duration

  package init(sinceStart: Duration) {
    self.sinceStart = sinceStart
  }

  package func advanced(by duration: Duration) -> Instant {
    Instant(sinceStart: self.sinceStart + duration)
  }

  package func duration(to other: Instant) -> Duration { other.sinceStart - self.sinceStart }

  package static func < (lhs: Self, rhs: Self) -> Bool { lhs.sinceStart < rhs.sinceStart }
}
