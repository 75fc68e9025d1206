/// How well a link by radio hears its network.
enum Signal: Hashable {
  /// Of Wi-Fi, in dBm.
  case strength(Int32)
  /// Of a modem, in percent, as ModemManager makes them of what the modem says.
  case quality(UInt32)

  /// Bars as telephones have them. Of Wi-Fi eleven decibels each: four from -55 dBm on, none below -88 dBm. Of a modem a fifth each, as
  /// desktops draw them: four from 80 % on, none below 20 %.
  var bars: Int {
    switch self {
    case .strength(let dBm): max(0, min(4, Int((Double(dBm) + 99) / 11)))
    case .quality(let percent): Int(min(percent, 80) / 20)
    }
  }

  func words(_ glyphs: Glyphs) -> String {
    let missing = String(repeating: glyphs.noBar, count: glyphs.bars.count - self.bars)
    return glyphs.bars.prefix(self.bars).joined() + missing + " \(self.number)"
  }

  private var number: String {
    switch self {
    case .strength(let dBm): "\(dBm)"
    case .quality(let percent): "\(percent)%"
    }
  }

  var ink: Ink {
    switch self.bars {
    case 3...: .good
    case 2: .middling
    default: .bad
    }
  }
}
