import Connectivity
import ConnectivityMonitor
import Glibc
import LinuxSupport
import Netlink
import Synchronization

/// Follows the links of this machine, and connd's path over each link. Reports each change in
/// ``changes``.
final class UplinkWatcher: Sendable {
  /// Global addresses that connd only looks up and does not contact (K2).
  static let probes: [AddressFamily: IPAddress] = [
    .ipv4: IPAddress(bytes: [17, 0, 0, 1]),
    .ipv6: IPAddress(bytes: [0x20, 0x01, 0x05] + Array(repeating: 0, count: 12) + [1]),
  ].compactMapValues { $0 }
  /// The maximum number of links that are followed. Older links take precedence.
  private static let maxLinks = 64
  /// Links whose packets travel inside those of another link.
  private static let tunnels: Set<String> = [
    "amt", "bareudp", "erspan", "geneve", "gre", "gretap", "gtp", "ip6erspan", "ip6gre",
    "ip6gretap", "ip6tnl", "ipip", "ipvti", "l2tp", "ovpn", "sit", "tun", "vti", "vti6", "vxlan",
    "wireguard", "xfrm",
  ]

  /// An element after each change. Several changes may share an element.
  let changes: AsyncStream<Void>
  private let attention: AsyncStream<Void>.Continuation
  private let socket: ConndSocket
  private let executor: any TaskExecutor
  private let state = Mutex(State())

  private struct State {
    var table = UplinkTable()
    var tasks: [UplinkTable.Key: Task<Void, Never>] = [:]
  }

  init(_ socket: ConndSocket, on executor: any TaskExecutor) {
    self.socket = socket
    self.executor = executor
    (self.changes, self.attention) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    for (family, probe) in Self.probes {
      self.follow(PathMonitor(destination: probe, socket: socket)) { table, path in
        table.note(path, ofDefault: family)
      }
    }
  }

  var table: UplinkTable { self.state.withLock { $0.table } }

  /// Adds an element to ``changes`` whenever the kernel reports a link, on a separate thread.
  ///
  /// - Throws: An error if netlink is unavailable.
  func watchLinks() throws {
    // The listener is opened before links are listed, so that no later link is missed.
    nonisolated(unsafe) let listener = try LinkListener()
    let isStarted = Thread.start(named: "connd-links") { [attention] in
      while true {
        var polled = pollfd(fd: listener.fileDescriptor, events: Int16(POLLIN), revents: 0)
        poll(&polled, 1, -1)
        do throws(NetlinkError) { try listener.drain() } catch { return attention.finish() }
        attention.yield()
      }
    }
    if !isStarted { throw SystemError() }
    self.attention.yield()
  }

  /// Follows the links that may have a default path, and stops following all others.
  func follow(_ links: [Link]) {
    let candidates = links.filter { link in
      link.flags.contains(.up) && !link.flags.contains(.loopback) && link.master == nil
        && !(link.kind.map(Self.tunnels.contains) ?? false)
    }
    let keys = candidates.sorted { $0.index < $1.index }.prefix(Self.maxLinks).flatMap { link in
      Self.probes.keys.map {
        UplinkTable.Key(link: link.index, name: link.name, family: $0)
      }
    }
    let (added, ended) = self.state.withLock { state in
      let (added, removed) = state.table.replace(Set(keys))
      return (added, removed.compactMap { state.tasks.removeValue(forKey: $0) })
    }
    for task in ended { task.cancel() }
    for key in added {
      guard let probe = Self.probes[key.family] else { continue }
      let monitor = PathMonitor(destination: probe, via: key.name, socket: self.socket)
      let task = self.follow(monitor) { $0.note($1, of: key) }
      self.state.withLock { $0.tasks[key] = task }
    }
  }

  @discardableResult
  private func follow(
    _ monitor: PathMonitor, _ note: @escaping @Sendable (inout UplinkTable, NetworkPath) -> Void
  ) -> Task<Void, Never> {
    Task(executorPreference: self.executor) { [weak self] in
      for await path in monitor {
        guard let self, !Task.isCancelled else { return }
        self.state.withLock { note(&$0.table, path) }
        self.attention.yield()
      }
    }
  }
}
