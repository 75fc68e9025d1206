import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor

/// The format of `--format`: text with fields in braces, such as `{category} {interface}`.
struct Template: Hashable, Sendable {
  enum Field: String, CaseIterable, Sendable {
    case category, interface, medium, metered, constrained, validation, portal
    case ipv4, ipv6, source, gateway, dns, since
    case event, generation, time, from, cause, reason, severity, scope

    /// Whether the field describes an event rather than the status.
    fileprivate var isOfEvent: Bool {
      [.event, .generation, .time, .from, .cause, .reason, .severity, .scope].contains(self)
    }
  }

  private enum Part: Hashable, Sendable {
    case text(String)
    case field(Field, isJSON: Bool)
  }

  private let parts: [Part]

  /// Whether to show every event. Otherwise only a changed text is shown.
  var isOfEvents: Bool {
    self.parts.contains { if case .field(let field, _) = $0 { field.isOfEvent } else { false } }
  }

  /// The first field that only a change has, or `nil` without one.
  var fieldOfChange: Field? {
    self.parts.lazy.compactMap { part -> Field? in
      guard case .field(let field, _) = part else { return nil }
      return [.time, .from, .cause, .reason, .severity, .scope].contains(field) ? field : nil
    }.first
  }

  /// - Throws: `ValidationError` that names the problem.
  static func reading(_ text: String) throws -> Template { try Template(text) }

  init(_ text: String) throws {
    var parts: [Part] = []
    var plain = ""
    var rest = text[...]
    while let character = rest.popFirst() {
      switch character {
      case "{" where rest.first == "{", "}" where rest.first == "}":
        plain.append(character)
        rest.removeFirst()
      case "{":
        guard let end = rest.firstIndex(of: "}") else {
          throw ValidationError("a { has no }: write {{ for the character")
        }
        if !plain.isEmpty { parts.append(.text(plain)) }
        plain = ""
        parts.append(try Self.field(rest[..<end]))
        rest = rest[rest.index(after: end)...]
      case "}": throw ValidationError("a } has no {: write }} for the character")
      case "\\" where rest.first == "n" || rest.first == "t":
        plain.append(rest.removeFirst() == "n" ? "\n" : "\t")
      default: plain.append(character)
      }
    }
    self.parts = plain.isEmpty ? parts : parts + [.text(plain)]
  }

  private static func field(_ text: Substring) throws -> Part {
    let words = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    let name = String(words.first ?? "")
    guard let field = Field(rawValue: name) else {
      let names = Field.allCases.map(\.rawValue)
      let hint = name.nearest(of: names).map { ". Did you mean {\($0)}?" } ?? "."
      throw ValidationError(
        "unknown field {\(name)}\(hint) Fields: \(names.joined(separator: ", "))")
    }
    guard words.count == 1 || words[1] == "json" else {
      throw ValidationError("after {\(name) only :json may follow")
    }
    return .field(field, isJSON: words.count == 2)
  }

  /// Returns the text for a status, and the event that led to it. Fields without a value are empty.
  func text(_ snapshot: ConnectivitySnapshot, _ event: StatusEvent) -> String {
    self.parts.map { part in
      switch part {
      case .text(let text): text
      case .field(let field, isJSON: true):
        Self.value(of: field, snapshot, event).json.description
      case .field(let field, isJSON: false): Self.value(of: field, snapshot, event).text.printable
      }
    }.joined()
  }

  // MARK: Values

  private enum Value {
    case word(String?)
    case number(UInt64)
    /// The word is shown if the flag is true.
    case flag(Bool, String)

    var text: String {
      switch self {
      case .word(let word): word.map(Self.untied) ?? ""
      case .number(let number): String(number)
      case .flag(let isTrue, let word): isTrue ? word : ""
      }
    }

    private static func untied(_ text: String) -> String {
      String(String.UnicodeScalarView(text.unicodeScalars.map { $0 == Text.tie ? " " : $0 }))
    }

    var json: JSON {
      switch self {
      // Status bars expect a text, not null.
      case .word(let word): .string(word.map(Self.untied) ?? "")
      case .number(let number): .number(number)
      case .flag(let isTrue, _): .bool(isTrue)
      }
    }
  }

  private static func value(
    of field: Field, _ snapshot: ConnectivitySnapshot, _ event: StatusEvent
  ) -> Value {
    let status = snapshot.status
    let isOnline = status.category.isOnline
    let change = event.change
    let (transition, invalidation) = (change?.transition, change?.invalidation)
    return switch field {
    case .category: .word(status.category.rawValue)
    // Empty while offline, because a bar would show an unusable link as the one in use.
    case .interface: .word(isOnline ? status.interface : nil)
    case .medium: .word(isOnline ? status.medium.rawValue : nil)
    case .metered: .flag(isOnline && status.isMetered, "metered")
    case .constrained: .flag(isOnline && status.isConstrained, "constrained")
    case .validation: .word(isOnline ? status.path.validation.state.rawValue : nil)
    case .portal: .word(isOnline ? status.path.validation.portal : nil)
    case .ipv4: .word(status.ipv4.status.rawValue)
    case .ipv6: .word(status.ipv6.status.rawValue)
    case .source: .word(isOnline ? status.path.source?.description : nil)
    case .gateway: .word(isOnline ? status.path.gateway?.description : nil)
    case .dns: .word(snapshot.dns?.servers.map(\.description).joined(separator: " "))
    case .since: .word(snapshot.since.description)
    case .event: .word(event.name)
    case .generation: .number(change?.generation ?? snapshot.generation)
    case .time: .word(change?.time.description)
    case .from: .word(transition?.from.rawValue)
    case .cause: .word(change?.cause.text)
    case .reason: .word(invalidation?.reason.rawValue)
    case .severity: .word(invalidation?.severity.rawValue)
    case .scope: .word(invalidation?.scope.text)
    }
  }
}

extension StatusEvent {
  var change: ConnectivityChange? { if case .change(let change) = self { change } else { nil } }

  /// The event's name in JSON, or `nil` for events of the connection.
  var name: String? {
    switch self {
    case .snapshot: "snapshot"
    case .gap: "gap"
    case .change(.transition): "transition"
    case .change(.path): "path"
    case .change(.invalidation): "invalidation"
    case .change(.dns): "dns"
    case .disconnected, .resumed: nil
    }
  }
}

extension ConnectivityChange {
  var transition: ConnectivityChange.Transition? {
    if case .transition(let value) = self { value } else { nil }
  }
  var invalidation: Invalidation? { if case .invalidation(let value) = self { value } else { nil } }

  var cause: ChangeCause {
    switch self {
    case .transition(let transition): transition.cause
    case .path(let change): change.cause
    case .invalidation(let invalidation): invalidation.cause
    case .dns(let change): change.cause
    }
  }
}
