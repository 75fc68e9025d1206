/// How well a Wi-Fi link is heard.
enum Signal {
  /// Bars as telephones have them, eleven decibels each: four from -55 dBm on, none below -88 dBm.
  static func bars(_ dBm: Int32) -> Int { max(0, min(4, Int((Double(dBm) + 99) / 11))) }

  static func words(_ dBm: Int32, _ glyphs: Glyphs) -> String {
    let bars = Self.bars(dBm)
    let missing = String(repeating: glyphs.noBar, count: glyphs.bars.count - bars)
    return glyphs.bars.prefix(bars).joined() + missing + " \(dBm)"
  }

  static func ink(_ dBm: Int32) -> Ink {
    switch Self.bars(dBm) {
    case 3...: .good
    case 2: .middling
    default: .bad
    }
  }
}
