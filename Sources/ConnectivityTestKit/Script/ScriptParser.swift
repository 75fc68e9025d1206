internal import Connectivity

/// A token of a script.
enum ScriptToken: Hashable {
  case word(String)
  case quoted(String)
  case comma
  case plus

  var text: String {
    switch self {
    case .word(let word): word
    case .quoted(let name): "\"\(name)\""
    case .comma: ","
    case .plus: "+"
    }
  }

  static func tokens(of text: String) throws(NetworkScriptError) -> [ScriptToken] {
    var tokens: [ScriptToken] = []
    var rest = Substring(text)
    while let first = rest.first {
      switch first {
      case ",": tokens.append(.comma)
      case "+": tokens.append(.plus)
      case "\"":
        let name = rest.dropFirst().prefix { $0 != "\"" }
        guard name.endIndex < rest.endIndex else {
          throw NetworkScriptError(String(rest), "the name's closing quote is missing")
        }
        tokens.append(.quoted(String(name)))
        rest = rest[name.endIndex...]
      case _ where first.isWhitespace: break
      default:
        let word = rest.prefix { !$0.isWhitespace && !",+\"".contains($0) }
        tokens.append(.word(String(word)))
        rest = rest[word.endIndex...]
        continue
      }
      rest = rest.dropFirst()
    }
    return tokens
  }
}

/// Parses tokens into steps.
struct ScriptParser {
  private var tokens: ArraySlice<ScriptToken>

  init(_ tokens: [ScriptToken]) {
    self.tokens = tokens[...]
  }

  mutating func steps() throws(NetworkScriptError) -> [NetworkScript.Step] {
    var steps: [NetworkScript.Step] = []
    while !self.tokens.isEmpty {
      steps.append(try self.step())
      guard let token = self.tokens.popFirst() else { break }
      guard token == .comma else {
        throw NetworkScriptError(token.text, "a comma comes between two steps")
      }
      if self.tokens.isEmpty { throw NetworkScriptError("", "a step comes after a comma") }
    }
    return steps
  }

  private mutating func step() throws(NetworkScriptError) -> NetworkScript.Step {
    if case .word(let word)? = self.tokens.first {
      switch word {
      case "bounce", "stop", "start":
        self.tokens.removeFirst()
        return word == "bounce" ? .bounce : word == "stop" ? .stop : .start
      case _ where word.first?.isNumber == true || word.first == ".":
        self.tokens.removeFirst()
        return .pause(try self.pause(word))
      default: break
      }
    }
    var networks = [try self.network()]
    while self.tokens.first == .plus {
      self.tokens.removeFirst()
      networks.append(try self.network())
    }
    return .become(networks)
  }

  // MARK: - Pauses

  private mutating func pause(_ word: String) throws(NetworkScriptError) -> Duration {
    let number = word.prefix { $0.isNumber || $0 == "." }
    var unit = String(word.dropFirst(number.count))
    if unit.isEmpty, case .word(let next)? = self.tokens.first {
      unit = next
      self.tokens.removeFirst()
    }
    let expectation = "a pause is a number and ms, s or min: 500 ms, 2 s"
    guard let value = Double(number), value.isFinite else {
      throw NetworkScriptError(word, expectation)
    }
    let milliseconds: Double
    switch unit {
    case "ms": milliseconds = value
    case "s": milliseconds = value * 1000
    case "min", "m": milliseconds = value * 60_000
    default: throw NetworkScriptError(unit.isEmpty ? word : unit, expectation)
    }
    guard milliseconds <= Self.maxPause else {
      throw NetworkScriptError(word, "a pause is at most a day")
    }
    return .milliseconds(milliseconds)
  }

  private static let maxPause = 86_400_000.0

  // MARK: - Networks

  private mutating func network() throws(NetworkScriptError) -> NetworkConditions {
    var network: NetworkConditions?
    var changes: [(NetworkConditions) -> NetworkConditions] = []
    words: while let token = self.tokens.first {
      switch token {
      case .comma, .plus: break words
      case .quoted(let name): changes.append { $0.named(name) }
      case .word("expensive"): changes.append { $0.expensive() }
      case .word("constrained"): changes.append { $0.constrained() }
      case .word(let word):
        if let named = Self.networks[word] {
          if network != nil { throw NetworkScriptError(word, "one network was named already") }
          network = named
        } else if let reason = KernelPath.Reason(rawValue: word) {
          changes.append { $0.failing(reason) }
        } else {
          throw NetworkScriptError(word, Self.expectation)
        }
      }
      self.tokens.removeFirst()
    }
    guard let network else {
      throw NetworkScriptError(self.tokens.first?.text ?? "", Self.expectation)
    }
    guard network.kind == .network || changes.isEmpty else {
      throw NetworkScriptError(
        network == .none ? "none" : "unknown", "it has neither name, cost nor reason")
    }
    return changes.reduce(network) { $1($0) }
  }

  private static let networks: [String: NetworkConditions] = [
    "wifi": .wifi, "cellular": .cellular, "wired": .wired, "none": .none, "unknown": .unknown,
  ]

  private static let expectation =
    "a step is a network (wifi, cellular, wired, none, unknown), with expensive, constrained, "
    + "a quoted name or a reason (noCarrier), or a pause (2 s), bounce, stop or start"
}
