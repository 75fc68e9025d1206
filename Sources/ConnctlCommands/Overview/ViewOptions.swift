/// The user's choices in `connctl top`, made by keys.
struct ViewOptions: Hashable, Sendable {
  /// The order of the links.
  enum Order: String, CaseIterable, Sendable {
    /// connd's order: links of the default paths first.
    case preference
    /// The most traffic first.
    case traffic
    case name
  }

  /// The consequence of typed bytes.
  enum Effect: Hashable, Sendable {
    case quit, redraw, changed, nothing
  }

  /// Whether to explain the keys.
  var showsKeys = false
  var order = Order.preference
  /// Whether to show the links' addresses.
  var showsAddresses = false
  /// Only rows that contain this text are shown. An empty text shows all rows.
  var filter = ""
  /// Whether typed characters change the filter.
  var isTyping = false

  private static let escape = "\u{1B}"

  /// Handles typed bytes. Ignores the sequences of arrow keys and similar keys.
  mutating func take(_ bytes: some Collection<UInt8>) -> Effect {
    let text = String(decoding: bytes, as: UTF8.self)
    if text != Self.escape, text.hasPrefix(Self.escape) { return .nothing }
    var result = Effect.nothing
    for character in text {
      let effect = self.isTyping ? self.type(character) : self.press(character)
      if effect == .quit { return .quit }
      if effect != .nothing { result = effect }
    }
    return result
  }

  private mutating func press(_ key: Character) -> Effect {
    switch key {
    case "q", "Q": return .quit
    // Ctrl-L redraws, as in other programs.
    case "\u{0C}": return .redraw
    case "?", "h": self.showsKeys.toggle()
    case "s":
      let all = Order.allCases
      let next = (all.firstIndex(of: self.order) ?? 0) + 1
      self.order = all[next % all.count]
    case "a": self.showsAddresses.toggle()
    case "/": self.isTyping = true
    case Character(Self.escape) where !self.filter.isEmpty: self.filter = ""
    default: return .nothing
    }
    return .changed
  }

  /// The maximum number of characters in a filter.
  private static let maxFilter = 32

  private mutating func type(_ key: Character) -> Effect {
    switch key {
    case "\n", "\r": self.isTyping = false
    case Character(Self.escape): (self.isTyping, self.filter) = (false, "")
    case "\u{7F}", "\u{08}":
      if self.filter.popLast() == nil { self.isTyping = false }
    default:
      let isPrintable = key.unicodeScalars.allSatisfy { $0.columns != nil }
      guard isPrintable, self.filter.count < Self.maxFilter else { return .nothing }
      self.filter.append(key)
    }
    return .changed
  }

  /// Whether the filter shows a row with these texts. Ignores case.
  func shows(_ texts: String...) -> Bool {
    guard !self.filter.isEmpty else { return true }
    let filter = self.filter.lowercased()
    return texts.contains { $0.lowercased().contains(filter) }
  }

  /// A text about the filter and the order, or `nil` if all rows are shown in the usual order.
  var text: String? {
    if self.isTyping { return "filter: \(self.filter)_  Enter keeps it, Esc removes it" }
    let parts = [
      self.filter.isEmpty ? nil : "filter: \(self.filter) (Esc removes it)",
      self.order == .preference ? nil : "links by \(self.order.rawValue)",
    ].compactMap { $0 }
    return parts.isEmpty ? nil : parts.joined(separator: " · ")
  }
}
