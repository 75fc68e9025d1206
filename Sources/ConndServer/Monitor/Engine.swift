import Connectivity

/// The daemon's mind: reads the kernel through the seam, compares, and says what is to be published.
///
/// A value without a thread or a clock of its own: the monitor's thread drives it with real time, tests with time of their
/// own.
struct Engine {
  private(set) var reader: PathReader
  private var transitions: TransitionMaker
  /// The destinations that somebody follows, each with the path that was told last.
  private var watched: [Destination: Path] = [:]
  private var isKernelLost = false

  /// What is to be done after a step.
  struct Step {
    var change: Change?
    /// The paths of watched destinations that are new.
    var paths: [(destination: Destination, path: Path)] = []
    /// When to step again even if the kernel says nothing.
    var deadline: Instant?
  }

  init(_ configuration: Configuration, restored: Snapshot?) {
    self.reader = PathReader(configuration)
    self.transitions = TransitionMaker(restored: restored, preferred: configuration.prefer)
  }

  /// What was published last.
  var snapshot: Snapshot { self.transitions.snapshot }

  /// The family that decides at a tie.
  var preferred: AddressFamily { self.transitions.preferred }

  /// The addresses whose routes matter.
  var watchedAddresses: [IPAddress] {
    self.reader.destinations.all + Set(self.watched.keys.map(\.address)).sorted()
  }

  /// Reads the kernel, and compares with what was published.
  mutating func step(
    _ occasion: Occasion, kernel: some Kernel, at now: Instant, time: Timestamp
  ) throws(KernelUnavailable) -> Step {
    let observed = try self.reader.observation(from: kernel)
    let occasion = self.isKernelLost ? .kernelBack : occasion
    self.isKernelLost = false
    let made = self.transitions.update(to: observed, on: occasion, at: now, time: time)
    var step = Step(change: made.change, deadline: made.deadline)
    for destination in self.watched.keys {
      let path = try self.reader.path(to: destination, from: kernel)
      if self.watched.updateValue(path, forKey: destination) != path {
        step.paths.append((destination, path))
      }
    }
    return step
  }

  /// The kernel cannot be asked: nothing is known any more (K8).
  mutating func lostKernel(
    _ reason: KernelUnavailable, at now: Instant, time: Timestamp
  ) -> Step {
    self.isKernelLost = true
    let made = self.transitions.update(
      to: .unknown, on: .kernelLost(reason.description), at: now, time: time)
    var step = Step(change: made.change)
    for (destination, path) in self.watched where path.status != .unknown {
      self.watched[destination] = .unknown
      step.paths.append((destination, .unknown))
    }
    return step
  }

  /// Follows a destination from now on, whose path is this.
  mutating func watch(_ destination: Destination, path: Path) {
    self.watched[destination] = path
  }

  mutating func unwatch(_ destination: Destination) {
    self.watched[destination] = nil
  }

  /// Takes another configuration; a step must follow.
  mutating func configure(_ configuration: Configuration) {
    self.reader = PathReader(configuration)
    self.transitions.preferred = configuration.prefer
  }
}

extension PathReader {
  fileprivate init(_ configuration: Configuration) {
    self.init(
      destinations: configuration.destinations,
      classifier: PathClassifier(policy: configuration.links))
  }
}
