import CYaml

/// A value in a YAML file and its place. Parsed by libyaml, event by event.
///
/// Aliases, anchors, tags and multiple documents are rejected. A configuration needs none of them,
/// and they can expand to more than the size of the file.
struct YAML {
  enum Content {
    /// `isPlain`: the scalar is not quoted, so it may be something other than text, such as null.
    case scalar(String, isPlain: Bool)
    case list([YAML])
    case mapping([(key: YAML, value: YAML)])
  }

  let content: Content
  /// The line number, counted from 1.
  let line: Int

  /// The reason why a text is not valid YAML or is not supported.
  struct Fault: Error {
    var line: Int?
    var message: String
  }

  /// Returns the document of a text, or `nil` if the text is empty or has only comments.
  static func parse(_ text: String) throws(Fault) -> YAML? {
    let bytes = Array(text.utf8)
    let result = bytes.withUnsafeBufferPointer { bytes in
      Result { () throws(Fault) in
        let parser = try Parser(bytes)
        return try parser.document()
      }
    }
    return try result.get()
  }

  /// Whether the value is empty, `~` or `null`.
  var isNull: Bool {
    guard case .scalar(let text, isPlain: true) = self.content else { return false }
    return ["", "~", "null", "Null", "NULL"].contains(text)
  }

  var text: String? {
    guard case .scalar(let text, _) = self.content, !self.isNull else { return nil }
    return text
  }

  var list: [YAML]? {
    guard case .list(let list) = self.content else { return nil }
    return list
  }

  var mapping: [(key: YAML, value: YAML)]? {
    guard case .mapping(let mapping) = self.content else { return nil }
    return mapping
  }
}

/// libyaml's parser. It reads the text in place, so the text must outlive the parser.
private final class Parser {
  /// The maximum depth of nesting. A valid configuration has three levels.
  private static let maxDepth = 16

  private let parser: UnsafeMutablePointer<yaml_parser_t>
  private let text: UnsafeBufferPointer<UInt8>

  init(_ text: UnsafeBufferPointer<UInt8>) throws(YAML.Fault) {
    self.text = text
    self.parser = .allocate(capacity: 1)
    guard yaml_parser_initialize(self.parser) == 1 else {
      // An empty parser, so that deinit has nothing to free.
      self.parser.initialize(to: yaml_parser_t())
      throw YAML.Fault(message: "out of memory")
    }
    yaml_parser_set_encoding(self.parser, YAML_UTF8_ENCODING)
    yaml_parser_set_input_string(self.parser, text.baseAddress, text.count)
  }

  deinit {
    yaml_parser_delete(self.parser)
    self.parser.deallocate()
  }

  func document() throws(YAML.Fault) -> YAML? {
    _ = try self.next()
    var root: YAML?
    while true {
      let event = try self.next()
      switch event.kind {
      case .end: return root
      case .documentStart:
        guard root == nil else {
          throw YAML.Fault(
            line: event.line, message: "only one document is allowed")
        }
        root = try self.node(try self.next(), depth: 0)
      case .documentEnd: continue
      default: throw YAML.Fault(line: event.line, message: "is outside of the document")
      }
    }
  }

  private func node(_ event: Event, depth: Int) throws(YAML.Fault) -> YAML {
    guard depth < Self.maxDepth else {
      throw YAML.Fault(line: event.line, message: "is nested too deeply")
    }
    switch event.kind {
    case .scalar(let text, let isPlain):
      return YAML(content: .scalar(text, isPlain: isPlain), line: event.line)
    case .listStart:
      var list: [YAML] = []
      while let event = try self.nextInside() {
        list.append(try self.node(event, depth: depth + 1))
      }
      return YAML(content: .list(list), line: event.line)
    case .mappingStart:
      var mapping: [(key: YAML, value: YAML)] = []
      while let event = try self.nextInside() {
        let key = try self.node(event, depth: depth + 1)
        mapping.append((key, try self.node(try self.next(), depth: depth + 1)))
      }
      return YAML(content: .mapping(mapping), line: event.line)
    default:
      throw YAML.Fault(line: event.line, message: "a value is missing")
    }
  }

  /// Returns the next event, or `nil` if it ends the enclosing list or mapping.
  private func nextInside() throws(YAML.Fault) -> Event? {
    let event = try self.next()
    if case .insideEnd = event.kind { return nil }
    return event
  }

  private struct Event {
    enum Kind {
      case end
      case documentStart
      case documentEnd
      case scalar(String, isPlain: Bool)
      case listStart
      case mappingStart
      case insideEnd
    }

    var kind: Kind
    var line: Int
  }

  private func next() throws(YAML.Fault) -> Event {
    var event = yaml_event_t()
    guard yaml_parser_parse(self.parser, &event) == 1 else { throw self.fault }
    defer { yaml_event_delete(&event) }
    let line = Int(event.start_mark.line) + 1
    func refusal(_ what: String) -> YAML.Fault { YAML.Fault(line: line, message: what) }
    switch event.type {
    case YAML_STREAM_END_EVENT: return Event(kind: .end, line: line)
    case YAML_DOCUMENT_START_EVENT: return Event(kind: .documentStart, line: line)
    case YAML_ALIAS_EVENT: throw refusal(quoteStar)
    case YAML_SCALAR_EVENT:
      let scalar = event.data.scalar
      guard scalar.anchor == nil else { throw refusal(Self.noAnchors) }
      guard scalar.tag == nil else { throw refusal(Self.noTags) }
      let text = String(
        decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
      return Event(
        kind: .scalar(text, isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE), line: line)
    case YAML_SEQUENCE_START_EVENT:
      guard event.data.sequence_start.anchor == nil else { throw refusal(Self.noAnchors) }
      guard event.data.sequence_start.tag == nil else { throw refusal(Self.noTags) }
      return Event(kind: .listStart, line: line)
    case YAML_MAPPING_START_EVENT:
      guard event.data.mapping_start.anchor == nil else { throw refusal(Self.noAnchors) }
      guard event.data.mapping_start.tag == nil else { throw refusal(Self.noTags) }
      return Event(kind: .mappingStart, line: line)
    case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
      return Event(kind: .insideEnd, line: line)
    // The start of the stream, or the end of a document.
    default: return Event(kind: .documentEnd, line: line)
    }
  }

  private static let noAnchors = "anchors (&) are not supported: quote values that begin with &"
  private static let noTags = "tags (!) are not supported: quote values that begin with !"

  /// The error at which libyaml stopped.
  private var fault: YAML.Fault {
    let parser = self.parser.pointee
    let problem = parser.problem.map { String(cString: $0) } ?? "is not YAML"
    switch parser.error {
    case YAML_READER_ERROR:
      // libyaml reports the place as a byte offset.
      let line = self.text.prefix(parser.problem_offset).count { $0 == UInt8(ascii: "\n") } + 1
      return YAML.Fault(line: line, message: problem)
    case YAML_SCANNER_ERROR
    where parser.context.map { String(cString: $0).contains("alias") } ?? false:
      return YAML.Fault(line: Int(parser.problem_mark.line) + 1, message: quoteStar)
    case YAML_SCANNER_ERROR, YAML_PARSER_ERROR:
      let line = Int(parser.problem_mark.line)
      let message =
        self.isIndentedByTab(line) ? "is indented with a tab; use spaces" : problem
      return YAML.Fault(line: line + 1, message: message)
    default:
      return YAML.Fault(message: problem)
    }
  }

  /// - Parameter line: Counted from 0.
  private func isIndentedByTab(_ line: Int) -> Bool {
    let lines = self.text.split(
      separator: UInt8(ascii: "\n"), maxSplits: line + 1, omittingEmptySubsequences: false)
    guard line < lines.count else { return false }
    let indent = lines[line].prefix { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    return indent.contains(UInt8(ascii: "\t"))
  }
}

/// In YAML, a word that begins with * is an alias.
private let quoteStar = "quote patterns that begin with *, as in match: \"*ppp\""
