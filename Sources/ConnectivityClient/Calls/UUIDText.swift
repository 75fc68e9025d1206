/// UUIDs (RFC 9562, version 4) as text. Foundation's UUID type would add megabytes.
enum UUIDText {
  static func random() -> String {
    let high = UInt64.random(in: .min ... .max) & ~0xF000 | 0x4000
    let low = UInt64.random(in: .min ... .max) & ~(3 << 62) | 2 << 62
    func hex(_ value: UInt64, digits: Int) -> String {
      let text = String(value, radix: 16)
      return String(repeating: "0", count: digits - text.count) + text
    }
    return [
      hex(high >> 32, digits: 8), hex(high >> 16 & 0xFFFF, digits: 4),
      hex(high & 0xFFFF, digits: 4), hex(low >> 48, digits: 4),
      hex(low & 0xFFFF_FFFF_FFFF, digits: 12),
    ].joined(separator: "-")
  }
}
