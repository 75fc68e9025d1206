internal import Connectivity
internal import ConnectivitySession

extension Channel {
  /// The server's name cannot be resolved. Until the next attempt, follows what may make it
  /// resolvable: the default paths, which lead to DNS servers, and the DNS configuration.
  func followResolver(_ hub: GuardHub) {
    self.follow(Self.elsewhere.compactMap { self.following($0, hub) })
    let resolver = ResolverWatch(socket: self.settings.config.socket) { [weak self] in
      self?.update { $0.machine.pathSatisfied(now: .now) }
    }
    self.state.withLock { if $0.machine.connectivity != .shutdown { $0.resolver = resolver } }
  }

  /// Documentation addresses (RFC 5737, RFC 3849), which no host uses. Their path is the default
  /// path.
  private static let elsewhere = ["192.0.2.1", "2001:db8::1"].compactMap { IPAddress($0) }
}

/// Reports changes of the DNS servers until its last reference is released.
final class ResolverWatch: Sendable {
  private let task: Task<Void, Never>

  init(socket: String, _ tell: @escaping @Sendable () -> Void) {
    let executor = EventLoopTaskExecutor(ClientThread.eventLoop)
    self.task = Task(executorPreference: executor) {
      let follower = StatusFollower(socket: socket, through: NIODialler(), kinds: [.dns])
      try? await follower.run { event in
        switch event {
        // A gap may hide a change.
        case .change(.dns), .gap: tell()
        case .snapshot, .change, .disconnected, .resumed: break
        }
      }
    }
  }

  deinit { self.task.cancel() }
}
