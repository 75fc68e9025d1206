import Connectivity

extension Unicode.Scalar {
  /// The number of terminal columns: 0 for a mark on the preceding character, or `nil` if terminals
  /// disagree or the character is not visible. Independent of the locale, because in the C locale
  /// only ASCII would have a width.
  var columns: Int? {
    if self.isASCII { return self.isUnprintable ? nil : 1 }
    if self.isUnprintable || self.joinsOthers { return nil }
    switch self.properties.generalCategory {
    case .nonspacingMark, .enclosingMark: return 0
    case .spacingMark, .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator,
      .paragraphSeparator:
      return nil
    default: return self.isWide ? 2 : 1
    }
  }

  /// Whether the character is East Asian Wide or Fullwidth (UAX #11, by block) or an emoji by
  /// default.
  private var isWide: Bool {
    switch self.value {
    case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0xA4CF,
      0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF01...0xFF60,
      0xFFE0...0xFFE6, 0x16FE0...0x18DFF, 0x1AFF0...0x1B2FF, 0x20000...0x3FFFD:
      true
    default: self.properties.isEmojiPresentation
    }
  }

  /// Whether only some terminals combine the character with its neighbours: flags, skin tones, and
  /// separate vowels and final consonants of Hangul.
  private var joinsOthers: Bool {
    switch self.value {
    case 0x1160...0x11FF, 0xD7B0...0xD7FF, 0x1F1E6...0x1F1FF, 0x1F3FB...0x1F3FF: true
    default: false
    }
  }

  /// Whether the character selects the style of the preceding one, which terminals may ignore.
  var isVariationSelector: Bool {
    switch self.value {
    case 0xFE00...0xFE0F, 0xE0100...0xE01EF: true
    default: false
    }
  }

  /// Whether the character belongs to a right-to-left script. Terminals that implement UAX #9
  /// reorder the text after it.
  var isRightToLeft: Bool {
    switch self.value {
    case 0x590...0x8FF, 0xFB1D...0xFDFF, 0xFE70...0xFEFF, 0x10800...0x10FFF, 0x1E800...0x1EFFF: true
    default: false
    }
  }
}
