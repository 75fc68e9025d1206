import Connectivity
import ConnectivityRules

/// The loop's state about users' cost overrides, apart from the overrides themselves.
struct OverrideState {
  /// Stores the overrides, or `nil` if they end with connd.
  let store: OverrideStore?
  /// Whether connd has read the kernel since it last checked whether the machine left a network
  /// with an override.
  var mayHaveLeft = true
  /// The links and networks with an override that was set with a duration in this run.
  private var timed: Set<CostOverrides.Subject> = []
  private var clocks = ClockSteps()

  init(_ store: OverrideStore?) { self.store = store }

  /// Records overrides that end after a duration, which ``shift(_:at:_:)`` then preserves.
  mutating func note(timed subjects: [CostOverrides.Subject], at now: Instant, _ time: WallTime) {
    self.timed.formUnion(subjects)
    _ = self.clocks.step(to: now, time)
  }

  /// Shifts the ends of the overrides with a duration if the wall clock was set.
  ///
  /// - Returns: Whether it was set.
  mutating func shift(
    _ costs: inout OverrideFile.Contents, at now: Instant, _ time: WallTime
  ) -> Bool {
    guard let step = self.clocks.step(to: now, time) else { return false }
    costs.overrides.shiftEnds(of: self.timed, by: step)
    return true
  }
}
