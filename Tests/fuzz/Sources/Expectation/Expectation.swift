/// Ends the process where something is not so: that is how a fuzz target tells libFuzzer of a finding. As `precondition`, which
/// in an optimised build does not say what it has seen.
public func expect(_ condition: Bool, _ words: @autoclosure () -> String = "") {
  guard condition else { fatalError("this cannot be: \(words())") }
}
