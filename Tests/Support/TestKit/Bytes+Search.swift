import Glibc

extension [UInt8] {
  /// Whether other bytes occur contiguously among these; an empty sequence always does.
  public func holds(_ other: [UInt8]) -> Bool {
    guard let first = other.first else { return true }
    return self.withUnsafeBytes { bytes in
      var place = 0
      while place + other.count <= bytes.count, let start = bytes.baseAddress {
        guard let found = memchr(start + place, CInt(first), bytes.count - place) else {
          return false
        }
        place = UnsafeRawPointer(found) - start
        guard place + other.count <= bytes.count else { return false }
        if memcmp(found, other, other.count) == 0 { return true }
        place += 1
      }
      return false
    }
  }
}
