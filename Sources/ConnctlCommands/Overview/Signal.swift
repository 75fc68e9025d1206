/// The signal quality of a wireless link.
enum Signal: Hashable {
  /// Wi-Fi, in dBm.
  case strength(Int32)
  /// A modem, in percent, as calculated by ModemManager.
  case quality(UInt32)

  /// The bars, as on phones. For Wi-Fi, each bar is 11 dB: four from -55 dBm, none below -88 dBm.
  /// For a modem, each bar is 20 %, as on desktops: four from 80 %, none below 20 %.
  var bars: Int {
    switch self {
    case .strength(let dBm): max(0, min(4, Int((Double(dBm) + 99) / 11)))
    case .quality(let percent): Int(min(percent, 80) / 20)
    }
  }

  func text(_ glyphs: Glyphs) -> String {
    let missing = String(repeating: glyphs.noBar, count: glyphs.bars.count - self.bars)
    return glyphs.bars.prefix(self.bars).joined() + missing + " \(self.number)"
  }

  private var number: String {
    switch self {
    case .strength(let dBm): "\(dBm)"
    case .quality(let percent): "\(percent)%"
    }
  }

  var ink: TextStyle {
    switch self.bars {
    case 3...: .good
    case 2: .middling
    default: .bad
    }
  }
}
