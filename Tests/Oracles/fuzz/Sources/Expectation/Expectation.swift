/// Ends the process if the condition is false, which reports a finding to libFuzzer. `precondition`
/// would not print the value in an optimised build.
public func expect(_ condition: Bool, _ words: @autoclosure () -> String = "") {
  guard condition else { fatalError("this cannot be: \(words())") }
}
