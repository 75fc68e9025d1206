public import Connectivity
public import Logging

/// Follows the network: yields the current path, and then each change.
///
/// ```swift
/// for await path in PathMonitor() {
///   print(path.isOnline ? "online by \(path.medium)" : "offline")
/// }
/// ```
///
/// Named after `NWPathMonitor`.
///
/// 1. The current path comes first. If connd is not running, is silent for two seconds, or is in
///    another network namespace, such as outside a container, that path is
///    ``NetworkPath/unknown``. connd is found as soon as its socket appears (C7).
/// 2. Then each change follows, in order. A path is skipped if it has the same category, family,
///    DNS settings and refusal as the previous one, and for each family the same status, reason,
///    links (and how many of them are guessed), medium, source, gateway, table, cost, constraint,
///    validation, quality, and reason why unbound connections may not use it. Properties that a
///    later version adds do not count.
/// 3. A bounce is reported: if the path was lost and came back, ``NetworkPath/interrupted`` comes
///    in between, even if both paths are equal (T2). Connections may have died.
/// 4. If connd goes away, the last path stays valid, so a restart has no effect. If connd is not
///    back within two seconds, ``NetworkPath/unknown`` follows.
/// 5. A slow reader receives the latest path, and before it the last loss that it missed. Nothing
///    else is kept.
/// 6. The sequence never throws. It ends with its task, and its stream from connd ends with its
///    iterator.
///
/// Creating a monitor costs nothing. Each iterator belongs to one task. All monitors and guards of
/// a process share one connection to connd.
public struct PathMonitor: AsyncSequence, Sendable {
  public typealias Element = NetworkPath

  /// The path to follow.
  enum Subject: Hashable, Sendable {
    case system
    case destination(IPAddress, mark: UInt32, via: String? = nil)
  }

  /// How long connd may be absent before the application learns of it.
  static let maxWait: Duration = .seconds(2)

  let subject: Subject
  package let access: NetworkAccess
  let socket: ConndSocket
  let maxWait: Duration
  let logger: Logger?

  /// Follows the system's connectivity: the paths to the default destination.
  ///
  /// - Parameters:
  ///   - access: The networks that the application may use, like
  ///     `NWPathMonitor(prohibitedInterfaceTypes:)` and `(requiredInterfaceType:)`. Any other path
  ///     is unsatisfied, with its ``NetworkPath/refusal``. The kernel still chooses the path; the
  ///     monitor does not select another one.
  ///   - socket: connd's socket.
  ///   - logger: Logs each path that is read, and when connd goes away or is back. `nil` logs
  ///     nothing.
  public init(
    access: NetworkAccess = .unrestricted, socket: ConndSocket = .default, logger: Logger? = nil
  ) {
    self.init(.system, access: access, socket: socket, logger: logger)
  }

  /// Follows the path to one destination for traffic of this user.
  ///
  /// If the path was lost and came back so quickly that connd read equal paths, nothing is
  /// reported. ``NetworkPath/interrupted`` never comes.
  ///
  /// - Parameters:
  ///   - destination: An address; the caller resolves names.
  ///   - mark: The mark (`SO_MARK`) of the traffic, or `nil` if it has none.
  ///   - link: The name of the link that the traffic is bound to (`SO_BINDTODEVICE`), or `nil` if
  ///     it is not. If the link does not exist, the path is unknown.
  ///   - access: The networks that the application may use. Any other path is unsatisfied.
  ///   - socket: connd's socket.
  ///   - logger: Logs each path that is read, and when connd goes away or is back. `nil` logs
  ///     nothing.
  public init(
    destination: IPAddress, mark: UInt32? = nil, via link: String? = nil,
    access: NetworkAccess = .unrestricted, socket: ConndSocket = .default, logger: Logger? = nil
  ) {
    self.init(
      .destination(destination, mark: mark ?? 0, via: link), access: access, socket: socket,
      logger: logger)
  }

  init(
    _ subject: Subject, access: NetworkAccess = .unrestricted, socket: ConndSocket,
    maxWait: Duration = Self.maxWait, logger: Logger? = nil
  ) {
    self.subject = subject
    self.access = access
    self.socket = socket
    self.maxWait = maxWait
    self.logger = logger
  }

  /// The current path, or ``NetworkPath/unknown`` if connd is not running or the task was
  /// cancelled.
  ///
  /// ```swift
  /// let path = await PathMonitor().currentPath
  /// ```
  public var currentPath: NetworkPath {
    get async {
      var paths = self.makeAsyncIterator()
      return await paths.next() ?? .unknown
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(subscription: PathSubscription(self))
  }

  /// An iterator over paths. Its subscription to connd ends with the last copy of the iterator.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let subscription: PathSubscription

    /// Returns the next path, or `nil` when the task was cancelled.
    public mutating func next() async -> NetworkPath? { await self.next(isolation: nil) }

    /// Returns the next path without leaving the caller's actor, or `nil` when the task was
    /// cancelled.
    public mutating func next(isolation: isolated (any Actor)?) async -> NetworkPath? {
      await self.subscription.next(isolation: isolation)
    }
  }
}
