/// The configuration of flap damping (T1).
package struct FlapPolicy: Hashable, Sendable {
  /// The number of losses within ``memory`` from which on gains are held. At least 2.
  package var losses = 3
  /// After this time without a loss, earlier losses are forgotten.
  package var memory = Duration.seconds(10)
  /// How long the first gain is held. Each further loss doubles it. Zero disables holds.
  package var firstHold = Duration.milliseconds(250)
  package var longestHold = Duration.seconds(1)

  package init() {}
}
