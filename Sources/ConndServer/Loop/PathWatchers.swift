import Connectivity

/// The clients that watch the path to a destination.
struct PathWatchers {
  private var watchers: [Destination: [UInt64: AsyncStream<KernelPath>.Continuation]] = [:]
  private var last: UInt64 = 0

  var count: Int { self.watchers.count }

  func contains(_ destination: Destination) -> Bool { self.watchers[destination] != nil }

  /// Adds a client. Its stream has no path yet.
  mutating func add(_ destination: Destination) -> PathWatch {
    // A slow reader receives only the latest path.
    let (stream, continuation) = AsyncStream.makeStream(
      of: KernelPath.self, bufferingPolicy: .bufferingNewest(1))
    self.last += 1
    self.watchers[destination, default: [:]][self.last] = continuation
    return PathWatch(paths: stream, watcher: self.last)
  }

  /// Removes a client and ends its stream.
  ///
  /// - Returns: Whether no client watches the destination any more.
  mutating func remove(_ watcher: UInt64, of destination: Destination) -> Bool {
    self.watchers[destination]?.removeValue(forKey: watcher)?.finish()
    guard self.watchers[destination]?.isEmpty == true else { return false }
    self.watchers[destination] = nil
    return true
  }

  /// Ends all streams.
  mutating func finish() {
    for watcher in self.watchers.values.flatMap(\.values) { watcher.finish() }
    self.watchers = [:]
  }

  /// Notifies the clients of a destination.
  func publish(_ path: KernelPath, of destination: Destination) {
    for watcher in (self.watchers[destination] ?? [:]).values { watcher.yield(path) }
  }

  /// Notifies one client.
  func publish(_ path: KernelPath, of destination: Destination, to watcher: UInt64) {
    self.watchers[destination]?[watcher]?.yield(path)
  }
}

/// A client's watch of the path to a destination.
struct PathWatch: Sendable {
  /// The current path, then each new one. A slow reader receives only the latest.
  var paths: AsyncStream<KernelPath>
  /// The number that identifies the watch.
  var watcher: UInt64
}
