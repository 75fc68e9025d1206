// Readable names for values of the model.

extension KernelPath.Reason {
  package var text: String {
    switch self {
    case .noRoute: "no route"
    case .unreachable: "an unreachable route"
    case .prohibited: "a prohibit rule or route"
    case .blackhole: "a blackhole rule or route"
    case .throw: "a throw route"
    case .noCarrier: "no carrier"
    case .dormant: "the link is dormant"
    case .suspended: "the modem is suspended"
    case .linkDown: "the link is down"
    case .noSourceAddress: "no usable source address"
    case .kernelUnavailable: "the kernel cannot be queried"
    case .unsupported: "the kernel does not support the family"
    }
  }

  /// Returns the reason as a sentence about the outgoing link, if there is one: `eth0 has no
  /// carrier`.
  package func text(of interface: String?) -> String {
    guard let interface else { return self.text }
    return switch self {
    case .noCarrier: "\(interface) has no carrier"
    case .dormant: "\(interface) is dormant"
    case .suspended: "\(interface) is suspended"
    case .linkDown: "\(interface) is down"
    case .noSourceAddress: "\(interface) has no usable source address"
    case .noRoute, .unreachable, .prohibited, .blackhole, .throw, .kernelUnavailable, .unsupported:
      self.text
    }
  }
}

extension Invalidation.Reason {
  package var text: String { self.rawValue.separatedWords }
}

extension String {
  /// The text with separate words: `carrierLost` becomes `carrier lost`.
  package var separatedWords: String {
    self.reduce(into: "") { words, character in
      words += character.isUppercase ? " " + character.lowercased() : String(character)
    }
  }
}

extension SocketTestimony {
  /// Returns `last heard 12 ms after the change` or `last heard 3.2 s before the change, 2 timeouts
  /// in a row`.
  package func text(since reference: String) -> String {
    let isBefore = self.lastHeard < .zero
    let distance = isBefore ? .zero - self.lastHeard : self.lastHeard
    var text = "last heard \(distance.shortText) \(isBefore ? "before" : "after") \(reference)"
    if self.timeouts > 0 {
      text += ", \(self.timeouts) timeout\(self.timeouts == 1 ? "" : "s") in a row"
    }
    return text
  }
}

extension Duration {
  /// The text `12 ms` or `3.2 s`.
  package var shortText: String {
    let (seconds, attoseconds) = self.components
    let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    guard milliseconds >= 1000 else { return "\(milliseconds) ms" }
    return "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
  }
}
