// Each description is one readable line, for logs and error messages. The wording may change.

extension KernelPath: CustomStringConvertible {
  /// The text `satisfied, wifi by wlan0 from 192.0.2.7 via 192.0.2.1, expensive`, or `requires
  /// connection: wlan0 has no carrier`.
  public var description: String {
    guard self.status == .satisfied else {
      let interface = self.interface?.escaped
      return self.status.rawValue.separatedWords
        + (self.reason.map { ": " + $0.text(of: interface) } ?? "")
    }
    var text = self.medium.rawValue
    if !self.chain.isEmpty {
      text += " by " + self.chain.map(\.description).joined(separator: " over ")
    }
    if let source = self.source { text += " from \(source)" }
    if let gateway = self.gateway { text += " via \(gateway)" }
    if self.isMetered { text += ", expensive" }
    if self.isCostUnknown { text += ", of unknown cost" }
    if self.isConstrained {
      text += self.constraint == .ultra ? ", ultra-constrained" : ", constrained"
    }
    return "satisfied, \(text)"
  }
}

// The words of connctl's output.

extension NetworkCategory: CustomStringConvertible {
  public var description: String { self.rawValue }
}

extension ThreeWayCategory: CustomStringConvertible {
  public var description: String { self.rawValue }
}

extension ConstraintLevel: CustomStringConvertible {
  public var description: String { self.rawValue }
}

extension KernelPath.Link: CustomStringConvertible {
  /// The name of the link.
  public var description: String { self.name.escaped }
}

extension ConnectivityStatus: CustomStringConvertible {
  /// The text `wifi, ipv4 satisfied, …, ipv6 unsatisfied: no route`.
  public var description: String {
    "\(self.category.rawValue), ipv4 \(self.ipv4), ipv6 \(self.ipv6)"
  }
}

extension ConnectivitySnapshot: CustomStringConvertible {
  /// The generation and the status.
  public var description: String { "\(self.generation): \(self.status)" }
}

extension ChangeCause: CustomStringConvertible {
  /// The text `carrier lost on wlan0 (RTM_NEWLINK)`.
  public var description: String { self.text { "\($0) \($1.escaped)" } }

  /// - Parameter phrase: Joins a preposition and a name.
  package func text(_ phrase: (String, String) -> String) -> String {
    var text = self.change.isEmpty ? self.trigger.rawValue : self.change.separatedWords
    if let interface = self.interface { text += " " + phrase("on", interface) }
    if let message = self.message { text += " (\(message))" }
    if self.learntLate { text += ", learnt late" }
    return text
  }
}

extension ConnectivityChange: CustomStringConvertible {
  /// The change and its cause.
  public var description: String {
    switch self {
    case .transition(let transition): transition.description
    case .path(let change): change.description
    case .invalidation(let invalidation): invalidation.description
    case .dns(let change): change.description
    }
  }
}

extension ConnectivityChange.Transition: CustomStringConvertible {
  /// The text `wired → none: carrier lost on eth0 (RTM_NEWLINK)`.
  public var description: String {
    let bounced = self.bounced ? ", after a bounce" : ""
    return "\(self.from.rawValue) → \(self.to.rawValue): \(self.cause)\(bounced)"
  }
}

extension ConnectivityChange.PathChange: CustomStringConvertible {
  /// The new paths and the cause.
  public var description: String { "path: \(self.cause); now \(self.snapshot.status)" }
}

extension ConnectivityChange.DNSChange: CustomStringConvertible {
  /// The cause and the new servers.
  public var description: String {
    let servers = self.settings.servers.map(\.description).joined(separator: ", ")
    return "dns: \(self.cause); now \(servers.isEmpty ? "no servers" : servers)"
  }
}

extension Invalidation: CustomStringConvertible {
  /// The text `destroy channels on wlan0 (ipv4), interface lost: carrier lost on wlan0`.
  public var description: String {
    "\(self.severity.rawValue) \(self.scope), \(self.reason.text): \(self.cause)"
  }
}

extension Invalidation.Scope: CustomStringConvertible {
  /// The text `all channels`, or `channels to 192.0.2.9 from 192.0.2.7 on wlan0 (ipv4)`.
  public var description: String { self.text("channels") { "\($0) \($1.escaped)" } }

  /// - Parameters:
  ///   - noun: The connections that the scope selects.
  ///   - phrase: Joins two words, such as a preposition and a name.
  package func text(_ noun: String, _ phrase: (String, String) -> String) -> String {
    var parts: [String] = []
    switch self.destination {
    case .address(let address): parts.append(phrase("to", address.description))
    case .offLink: parts.append("by a gateway")
    case nil: break
    }
    if let addresses = self.localAddresses {
      let list = addresses.map(\.description)
      parts.append(([phrase("from", list.first ?? "")] + list.dropFirst()).joined(separator: ", "))
    }
    if let interface = self.interface { parts.append(phrase("on", interface)) }
    parts.insert(parts.isEmpty ? phrase("all", noun) : noun, at: 0)
    if let family = self.family { parts.append("(\(family.rawValue))") }
    return parts.joined(separator: " ")
  }
}

extension InvalidationError: CustomStringConvertible {
  /// The text `destroy, interface lost: carrier lost on eth0 (RTM_NEWLINK); now requires
  /// connection: eth0 has no carrier`.
  public var description: String {
    var text = "\(self.severity.rawValue), \(self.reason.text)"
    if let reason = self.networkUnavailableReason { text += " (\(reason.rawValue))" }
    text += ": \(self.cause)"
    if let socket = self.socket { text += "; \(socket.text(since: "the change"))" }
    if let path = self.path { text += "; now \(path)" }
    return text
  }
}
