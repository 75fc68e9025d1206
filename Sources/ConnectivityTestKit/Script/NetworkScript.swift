/// What happens to a simulated network, in words: `wifi, 2 s, none, cellular`.
///
/// A script is a list of steps, separated by commas:
///
/// | step | means |
/// |---|---|
/// | `wifi` `cellular` `wired` `none` `unknown` | the machine is on this network now |
/// | `wifi "another"` | another network of the kind |
/// | `expensive wifi`, `constrained cellular` | what it costs |
/// | `wifi noCarrier` | it is there, and no traffic flows, for this reason: one of `Path.Reason` |
/// | `wired + wifi` | both are there, and traffic goes by the first |
/// | `500 ms` `2 s` `1 min` | a pause |
/// | `bounce` | the links go and come back, faster than anybody looks |
/// | `stop` `start` | connd goes, and comes back |
public struct NetworkScript: Hashable, Sendable {
  public var steps: [Step]

  /// One thing that happens.
  @nonexhaustive public enum Step: Hashable, Sendable {
    /// These are the networks that there are now, the most preferred first.
    case become([NetworkConditions])
    case pause(Duration)
    case bounce
    /// connd goes.
    case stop
    /// connd comes back.
    case start
  }

  public init(steps: [Step]) {
    self.steps = steps
  }

  /// Reads a script; an empty one has no steps.
  ///
  /// - Throws: ``NetworkScriptError``, which names the word that is not understood.
  public init(_ text: String) throws(NetworkScriptError) {
    var parser = ScriptParser(try ScriptToken.tokens(of: text))
    self.steps = try parser.steps()
  }
}

/// A script that makes no sense.
public struct NetworkScriptError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The word that is not understood; empty where the script ends too soon.
  public var word: String
  /// What was expected in its place.
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
