public import Connectivity
internal import ConnectivitySession

/// Follows the network: the present path, and then each one that it becomes.
///
/// ```swift
/// for await path in PathMonitor() {
///   print(path.isOnline ? "online by \(path.medium)" : "offline")
/// }
/// ```
///
/// Named as `NWPathMonitor` is.
///
/// 1. The present path comes first. Where connd is not there that is ``NetworkPath/unknown``; so it is where connd
///    says nothing for two seconds. connd is found when it comes (C7): it is looked for after 100 ms, then in growing
///    pauses of at most 2 s.
/// 2. Then each change comes, in order. A path that equals the one before it is not told.
/// 3. A bounce is told: where the path went and came back, ``NetworkPath/interrupted`` comes in between, even if both
///    ends are equal (T2). Connections may have died.
/// 4. Where connd goes away the last path stays what it was: a restart is not seen. If connd is not back within two
///    seconds, ``NetworkPath/unknown`` comes.
/// 5. Who reads slowly gets the latest path, and before it the last loss that was missed: nothing else is kept.
/// 6. The sequence never throws. It ends with its task, and its stream from connd with its iterator.
///
/// The monitor is a value and costs nothing. Each iterator belongs to one task. All of a process share one connection to connd, with
/// its guards.
public struct PathMonitor: AsyncSequence, Sendable {
  public typealias Element = NetworkPath

  /// Whose path it is.
  enum Subject: Hashable, Sendable {
    case system
    case destination(IPAddress, mark: UInt32)
  }

  /// How long the absence of connd is kept from the application.
  static let patience: Duration = .seconds(2)

  let subject: Subject
  let access: NetworkAccess
  let socket: String
  let patience: Duration

  /// Follows the system's connectivity: the paths to the default destination.
  ///
  /// - Parameters:
  ///   - access: The networks that the application may use, as `NWPathMonitor(prohibitedInterfaceTypes:)` and
  ///     `(requiredInterfaceType:)` do: a path by any other is told as unsatisfied, with its ``NetworkPath/refusal``. It remains
  ///     the kernel that chooses the path; no other is looked for.
  ///   - socket: The path of connd's socket.
  public init(access: NetworkAccess = .unrestricted, socket: String = SocketPath.default) {
    self.init(.system, access: access, socket: socket)
  }

  /// Follows the path to one destination, as traffic of this user takes it.
  ///
  /// A path that went and came back so soon that connd read the same twice is not told: ``NetworkPath/interrupted``
  /// never comes.
  ///
  /// - Parameters:
  ///   - destination: An address; names are the caller's to resolve.
  ///   - mark: The mark (`SO_MARK`) of the traffic; 0: none.
  ///   - access: The networks that the application may use: a path by any other is told as unsatisfied.
  ///   - socket: The path of connd's socket.
  public init(
    destination: IPAddress, mark: UInt32 = 0, access: NetworkAccess = .unrestricted,
    socket: String = SocketPath.default
  ) {
    self.init(.destination(destination, mark: mark), access: access, socket: socket)
  }

  init(
    _ subject: Subject, access: NetworkAccess = .unrestricted, socket: String,
    patience: Duration = Self.patience
  ) {
    self.subject = subject
    self.access = access
    self.socket = socket
    self.patience = patience
  }

  /// The present path; ``NetworkPath/unknown`` where connd is not there, and where the
  /// task was cancelled.
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

  /// One connection to connd, kept up until the iterator goes.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let subscription: PathSubscription

    /// The next path; `nil` when the task was cancelled.
    public mutating func next() async -> NetworkPath? { await self.next(isolation: nil) }

    /// The next path, without leaving the caller's actor; `nil` when the task was cancelled.
    public mutating func next(isolation: isolated (any Actor)?) async -> NetworkPath? {
      await self.subscription.next(isolation: isolation)
    }
  }
}
