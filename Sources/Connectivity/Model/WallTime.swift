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

  /// Returns the time after a duration, or the last representable time if that is earlier.
  package func advanced(by duration: Duration) -> WallTime {
    let (seconds, attoseconds) = duration.components
    let whole = seconds.multipliedReportingOverflow(by: 1_000_000)
    let rest = attoseconds / 1_000_000_000_000
    let sum = self.microseconds.addingReportingOverflow(whole.partialValue + rest)
    return WallTime(microseconds: whole.overflow || sum.overflow ? .max : sum.partialValue)
  }

  /// Returns the duration from this time to another.
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
    // The text has at most 30 bytes: the years are -290308 to 294247.
    return String(unsafeUninitializedCapacity: 32) { text in
      var digits = Digits(text)
      digits.append(date.tm_year + 1900, 4, "-")
      digits.append(date.tm_mon + 1, 2, "-")
      digits.append(date.tm_mday, 2, "T")
      digits.append(date.tm_hour, 2, ":")
      digits.append(date.tm_min, 2, ":")
      digits.append(date.tm_sec, 2, ".")
      digits.append(Int32(fraction), 6, "Z")
      return digits.count
    }
  }
}

/// Writes decimal numbers into a buffer that is large enough for them.
private struct Digits {
  private let text: UnsafeMutableBufferPointer<UInt8>
  private(set) var count = 0

  init(_ text: UnsafeMutableBufferPointer<UInt8>) { self.text = text }

  private mutating func append(_ character: UInt8) {
    self.text[self.count] = character
    self.count += 1
  }

  /// Appends a number with at least `width` digits, and a character.
  mutating func append(_ number: Int32, _ width: Int, _ end: Unicode.Scalar) {
    if number < 0 { self.append(UInt8(ascii: "-")) }
    var power: UInt32 = 1
    for _ in 1..<width { power *= 10 }
    while number.magnitude / power >= 10 { power *= 10 }
    while power > 0 {
      self.append(UInt8(ascii: "0") + UInt8(number.magnitude / power % 10))
      power /= 10
    }
    self.append(UInt8(ascii: end))
  }
}

extension Int64 {
  fileprivate func floorDivided(by divisor: Int64) -> (Int64, Int64) {
    let (quotient, remainder) = self.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
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
