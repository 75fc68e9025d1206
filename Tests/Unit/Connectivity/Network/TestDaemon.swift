import Connectivity
import ConnectivityRules

/// The part of the daemon between the kernel and the rules: it remembers which networks are known.
struct TestDaemon {
  var maker: ChangeDetector
  private(set) var scene = Scene()
  private(set) var networks = TestNetworks()
  private(set) var isUnknown = false
  /// When the next grace period ends.
  private(set) var deadline: Instant?

  init(_ maker: ChangeDetector) { self.maker = maker }

  /// Reads the present scene.
  ///
  /// - Parameter events: The kernel's messages. It sends none while it cannot be queried.
  mutating func read(
    _ scene: Scene, _ events: [KernelEvent], on trigger: ReadTrigger, at now: Instant
  ) -> ChangeDetector.Step {
    self.scene = scene
    self.isUnknown = false
    self.networks.note(events, scene)
    return self.update(on: trigger, at: now)
  }

  /// Reads these default paths, whatever the scene is.
  mutating func read(
    _ observation: Observation, on trigger: ReadTrigger, at now: Instant
  ) -> ChangeDetector.Step {
    self.maker.update(
      to: ChangeDetector.Reading(observation), on: trigger, at: now, time: Self.time(now))
  }

  mutating func readAgain(at now: Instant) -> ChangeDetector.Step {
    self.isUnknown
      ? self.update(on: .timer, at: now) : self.read(self.scene, [], on: .timer, at: now)
  }

  mutating func loseKernel(at now: Instant) -> ChangeDetector.Step {
    self.isUnknown = true
    return self.update(on: .kernelLost("no netlink"), at: now)
  }

  func reading(
    of made: KernelPath?, from source: IPAddress?, to aim: Scene.Aim, _ family: AddressFamily
  ) -> FlowReading {
    self.isUnknown
      ? .unknown : self.scene.reading(of: made, from: source, to: aim, family, self.networks)
  }

  private mutating func update(on trigger: ReadTrigger, at now: Instant) -> ChangeDetector.Step {
    let reading =
      self.isUnknown
      ? ChangeDetector.Reading(.unknown)
      : self.scene.reading(for: self.maker, self.networks)
    let step = self.maker.update(to: reading, on: trigger, at: now, time: Self.time(now))
    self.deadline = step.deadline
    return step
  }

  private static func time(_ now: Instant) -> WallTime {
    WallTime(microseconds: Int64(now.milliseconds) * 1000)
  }
}
