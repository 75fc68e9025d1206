import Glibc
import Synchronization
import TestKit

/// A link that delays its packets: two tun devices, and a thread that carries packets between them.
/// It lasts as long as this object.
final class DelayedLink {
  private let inside: TunDevice
  private let outside: TunDevice
  private let state = State()

  private final class State: Sendable {
    let isOver = Atomic<Bool>(false)
    let isSilent = Atomic<Bool>(false)
    let hasEnded = Atomic<Bool>(false)
  }

  /// - Parameters:
  ///   - name: of both ends.
  ///   - delay: in each direction.
  init(
    _ name: String, in laboratory: Laboratory, _ address: String, via gateway: String,
    delay: Duration
  ) throws {
    self.inside = try TunDevice(name, in: laboratory.namespace)
    self.outside = try TunDevice(name, in: laboratory.outside)
    for (namespace, own) in [(laboratory.namespace, address), (laboratory.outside, gateway)] {
      try namespace.ip("address add \(own)/24 dev \(name)")
      try namespace.ip("link set \(name) up")
    }
    let (near, far, state) = (self.inside.descriptor, self.outside.descriptor, self.state)
    startThread {
      Self.carry(near, far, delay, state)
      state.hasEnded.store(true, ordering: .releasing)
    }
  }

  deinit { self.end() }

  /// Loses all packets from now on. They are still read, because TCP does not retransmit data that
  /// waits in a local queue.
  func fallSilent() { self.state.isSilent.store(true, ordering: .relaxed) }

  /// Stops carrying packets.
  func end() {
    self.state.isOver.store(true, ordering: .relaxed)
    while !self.state.hasEnded.load(ordering: .acquiring) { sched_yield() }
  }

  private static func carry(
    _ near: CInt, _ far: CInt, _ delay: Duration, _ state: State
  ) {
    var waiting: [(due: ContinuousClock.Instant, to: CInt, packet: [UInt8])] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while !state.isOver.load(ordering: .relaxed) {
      var descriptors = [near, far].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      if poll(&descriptors, 2, 1) > 0 {
        for (place, other) in [far, near].enumerated() where descriptors[place].revents != 0 {
          let count = read(descriptors[place].fd, &buffer, buffer.count)
          guard count > 0 else { continue }
          waiting.append((.now + delay, other, Array(buffer[..<count])))
        }
      }
      let now = ContinuousClock.now
      let due = waiting.prefix { $0.due <= now }
      for (_, descriptor, packet) in due where !state.isSilent.load(ordering: .relaxed) {
        _ = write(descriptor, packet, packet.count)
      }
      waiting.removeFirst(due.count)
    }
  }
}
