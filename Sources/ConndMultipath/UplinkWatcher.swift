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
  /// How long to ignore events of connections after such an event, in milliseconds. Connections may
  /// begin and end often.
  private static let pause: CInt = 100
  /// Links that send their packets inside packets of another link.
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
    var monitors: [UplinkTable.Key: (name: String, task: Task<Void, Never>)] = [:]
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

  /// Starts a thread that adds an element to ``changes`` whenever the kernel reports a link, or a
  /// connection or subflow of Multipath TCP.
  ///
  /// - Throws: An error if netlink is unavailable, or this process may not listen.
  func listen() throws {
    // Opened here, so that no link appears unnoticed between the first list and this.
    nonisolated(unsafe) let links = try HintListener.links()
    nonisolated(unsafe) let connections = try HintListener.multipathConnections()
    let isStarted = Thread.start(named: "connd-links") { [attention] in
      var pauses = false
      while true {
        // poll(2) ignores negative descriptors.
        let descriptors = [links.fileDescriptor, pauses ? -1 : connections?.fileDescriptor ?? -1]
        var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        let count = poll(&polled, 2, pauses ? Self.pause : -1)
        do throws(NetlinkError) {
          if polled[0].revents != 0 { try links.drain() }
          if polled[1].revents != 0 { try connections?.drain() }
        } catch {
          return attention.finish()
        }
        pauses = polled[1].revents != 0 || pauses && count != 0
        if count > 0 { attention.yield() }
      }
    }
    if !isStarted { throw SystemError() }
    self.attention.yield()
  }

  /// Adds an element to ``changes`` after a time, unless the task is cancelled.
  func lookAgain(after time: Duration) -> Task<Void, Never> {
    Task { [attention] in
      guard (try? await Task.sleep(for: time)) != nil else { return }
      attention.yield()
    }
  }

  /// Follows the links that may have a default path, and stops following all others.
  func follow(_ links: [Link]) {
    let candidates = links.filter { link in
      link.flags.contains(.up) && !link.flags.contains(.loopback) && link.master == nil
        && !(link.kind.map(Self.tunnels.contains) ?? false)
    }
    var names: [UplinkTable.Key: String] = [:]
    for link in candidates.sorted(by: { $0.index < $1.index }).prefix(Self.maxLinks) {
      for family in Self.probes.keys {
        names[UplinkTable.Key(link: link.index, family: family)] = link.name
      }
    }
    let (ended, begun) = self.state.withLock { state in
      state.table.replace(Set(names.keys))
      // connd finds the link by its name for each new request.
      let ended = state.monitors.filter { names[$0.key] != $0.value.name }
      for key in ended.keys { state.monitors[key] = nil }
      return (ended.values.map(\.task), names.filter { state.monitors[$0.key] == nil })
    }
    for task in ended { task.cancel() }
    for (key, name) in begun {
      guard let probe = Self.probes[key.family] else { continue }
      let monitor = PathMonitor(destination: probe, via: name, socket: self.socket)
      let task = self.follow(monitor) { $0.note($1, of: key) }
      self.state.withLock { $0.monitors[key] = (name, task) }
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
