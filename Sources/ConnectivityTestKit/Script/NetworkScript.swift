/// The events of a simulated network, as text: `wifi, 2 s, none, cellular`.
///
/// A script is a list of steps, separated by commas:
///
/// | step | meaning |
/// |---|---|
/// | `wifi` `cellular` `wired` `none` `unknown` | puts the machine on this network |
/// | `wifi "another"` | another network of the same kind |
/// | `expensive wifi`, `constrained cellular` | the network's cost |
/// | `wifi noCarrier` | the network exists but passes no traffic, for this `KernelPath.Reason` |
/// | `wired + wifi` | both exist, and traffic uses the first |
/// | `500 ms` `2 s` `1 min` | a pause |
/// | `bounce` | the links go away and come back before connd reads the kernel |
/// | `stop` `start` | connd stops, and starts again |
public struct NetworkScript: Hashable, Sendable {
  public var steps: [Step]

  /// A single event.
  @nonexhaustive public enum Step: Hashable, Sendable {
    /// The existing networks from now on, most preferred first.
    case become([NetworkConditions])
    case pause(Duration)
    case bounce
    /// connd stops.
    case stop
    /// connd starts again.
    case start
  }

  public init(steps: [Step]) {
    self.steps = steps
  }

  /// Parses a script. An empty script has no steps.
  ///
  /// - Throws: ``NetworkScriptError``, which names the invalid word.
  public init(_ text: String) throws(NetworkScriptError) {
    var parser = ScriptParser(try ScriptToken.tokens(of: text))
    self.steps = try parser.steps()
  }
}

/// The error of an invalid script.
public struct NetworkScriptError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The invalid word, or empty if the script ends too early.
  public var word: String
  /// The expectation at that place.
  public var expectation: String

  init(_ word: String, _ expectation: String) {
    self.word = word
    self.expectation = expectation
  }

  public var description: String {
    let what = self.word.isEmpty ? "the script ends too soon" : "'\(self.word)' is not understood"
    return "\(what): \(self.expectation)"
  }
}
