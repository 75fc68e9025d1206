/// What the configuration says about links that flap (T1).
package struct FlapPolicy: Hashable, Sendable {
  /// The loss within ``memory`` from which on gains are held. At least 2.
  package var losses = 3
  /// After so long without a loss, earlier losses are forgotten.
  package var memory = Duration.seconds(10)
  /// For how long the first gain is held; each further loss doubles it. Zero: none is.
  package var firstHold = Duration.milliseconds(250)
  package var longestHold = Duration.seconds(1)

  package init() {}
}
