import Connectivity

// The model's words as a person reads them.

extension Category {
  var ink: Ink {
    switch self {
    case .none: .bad
    case .unknown: .middling
    case .wifi, .cellular, .wired, .other: .good
    }
  }
}

extension Path.Status {
  var words: String {
    switch self {
    case .satisfied: "satisfied"
    case .requiresConnection: Text.tied("requires", "connection")
    case .unsatisfied: "unsatisfied"
    case .unknown: "unknown"
    }
  }

  var ink: Ink {
    switch self {
    case .satisfied: .good
    case .requiresConnection, .unknown: .middling
    case .unsatisfied: .bad
    }
  }
}

extension Path.Reason {
  var words: String {
    switch self {
    case .noRoute: "no route"
    case .unreachable: "the route says unreachable"
    case .prohibited: "the route says prohibit"
    case .blackhole: "the route says blackhole"
    case .throw: "the route says throw"
    case .noCarrier: "no carrier"
    case .dormant: "the link is dormant"
    case .linkDown: "the link is down"
    case .noSourceAddress: "no usable source address"
    case .flapping: "the link flaps"
    case .kernelUnavailable: "the kernel cannot be asked"
    }
  }
}

extension Path {
  /// `vlan10 over bond0 over eth0`
  var chainWords: String { self.chain.map(\.name).joined(separator: " over ") }

  /// Why it is not satisfied, where the traffic comes from and where it goes: what fits into a line.
  var details: String {
    var details: [String] = []
    if let reason = self.reason { details.append(reason.words) }
    if self.chain.count > 1 {
      details += self.chain.dropFirst().map { Text.tied("over", $0.name) }
    }
    if let source = self.source { details.append(Text.tied("from", source.description)) }
    if let gateway = self.gateway { details.append(Text.tied("via", gateway.description)) }
    return details.joined(separator: " ")
  }
}

extension Status {
  /// `wifi via wlan0`
  var summary: String {
    var words = self.category.rawValue
    if self.category == .other { words += " (\(self.medium.rawValue))" }
    if let interface = self.interface { words += " via \(interface)" }
    return words
  }

  /// `, expensive, constrained`
  var costs: String {
    (self.expensive ? ", expensive" : "") + (self.constrained ? ", constrained" : "")
  }
}

extension Cause {
  /// `carrier lost on wlan0 (RTM_NEWLINK)`
  var words: String {
    var words = self.change.isEmpty ? self.trigger.rawValue : self.change.separatingWords
    if let interface = self.interface { words += " " + Text.tied("on", interface) }
    if let message = self.message { words += " (\(message))" }
    if self.learntLate { words += ", learnt late" }
    return words
  }
}

extension Invalidation.Reason {
  var words: String { self.rawValue.separatingWords }
}

extension Invalidation.Severity {
  var ink: Ink {
    switch self {
    case .destroy: .bad
    case .drain: .middling
    case .advise: .faint
    }
  }
}

extension Invalidation.Scope {
  /// `channels on wlan0 (ipv4)`
  var words: String {
    var words: [String] = []
    if let destination = self.destination { words.append(Text.tied("to", destination.description)) }
    if let addresses = self.localAddresses {
      let list = addresses.map(\.description)
      words.append(
        Text.tied("from", list.first ?? "") + list.dropFirst().map { ", " + $0 }.joined())
    }
    if let interface = self.interface { words.append(Text.tied("on", interface)) }
    words.insert(words.isEmpty ? Text.tied("all", "channels") : "channels", at: 0)
    if let family = self.family { words.append("(\(family.rawValue))") }
    return words.joined(separator: " ")
  }
}

extension String {
  /// `carrierLost` as `carrier lost`.
  var separatingWords: String {
    self.reduce(into: "") { words, character in
      words += character.isUppercase ? " " + character.lowercased() : String(character)
    }
  }
}

extension Duration {
  /// The largest unit that fits: `12 s`, `3 min`, `5 h`, `2 d`. What is negative is `0 s`.
  var words: String {
    let seconds = max(0, self.components.seconds)
    return switch seconds {
    case ..<60: "\(seconds) s"
    case ..<3_600: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3_600) h"
    default: "\(seconds / 86_400) d"
    }
  }
}
