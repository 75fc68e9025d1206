internal import Connectivity
internal import ConnectivitySession

extension Channel {
  /// Nobody knows where the server is: follows, until the next attempt, what may let somebody know. That is the ways out of this
  /// machine, which lead to whoever is asked for names, and who that is.
  func followResolver(_ hub: GuardHub) {
    self.follow(Self.elsewhere.map { self.guarding($0, hub) })
    let resolver = ResolverWatch(socket: self.settings.config.socket) { [weak self] in
      self?.update { $0.machine.pathSatisfied(now: .now) }
    }
    self.state.withLock { if $0.machine.connectivity != .shutdown { $0.resolver = resolver } }
  }

  /// For documentation (RFC 5737, RFC 3849), so that nothing is there: the way to them is the default path.
  private static let elsewhere = ["192.0.2.1", "2001:db8::1"].compactMap { IPAddress($0) }
}

/// Tells that other servers are asked for names, until its last reference goes.
final class ResolverWatch: Sendable {
  private let task: Task<Void, Never>

  init(socket: String, _ tell: @escaping @Sendable () -> Void) {
    let executor = EventLoopTaskExecutor(ClientThread.eventLoop)
    self.task = Task(executorPreference: executor) {
      let follower = StatusFollower(socket: socket, through: NIODialler(), kinds: [.dns])
      try? await follower.run { event in
        switch event {
        // A gap may hide one.
        case .change(.dns), .gap: tell()
        case .snapshot, .change, .disconnected, .resumed: break
        }
      }
    }
  }

  deinit { self.task.cancel() }
}
