import Glibc
import LinuxSupport

/// Reports through inotify(7) that a Unix socket may have appeared, so that a client waits for its
/// server without waking up. All sockets share one inotify instance, which exists only while one of
/// them is watched.
///
/// Belongs to the reactor's thread. Implements rule C7.
final class SocketWatch: Pollable {
  typealias ID = UInt64

  private unowned let reactor: Reactor
  private var watched: [ID: (path: String, tell: () -> Void)] = [:]
  private var lastID: ID = 0
  /// The inotify instance; -1 without one.
  private var descriptor: CInt = -1
  /// The watched sockets, by the watch descriptor of a directory and the name to watch in it.
  private var names: [CInt: [String: Set<ID>]] = [:]

  let account: Account? = nil

  init(_ reactor: Reactor) { self.reactor = reactor }

  var isWatching: Bool { self.descriptor >= 0 }

  deinit { if self.descriptor >= 0 { close(self.descriptor) } }

  /// Watches the nearest existing directory of a path.
  ///
  /// - Parameter tell: Called whenever the socket, or a directory of its path, may have appeared or
  ///   changed its permissions.
  /// - Returns: `nil` if the path cannot be watched, for example because no inotify instances are
  ///   left.
  func add(_ path: String, _ tell: @escaping () -> Void) -> ID? {
    guard self.open() else { return nil }
    self.lastID += 1
    self.watched[self.lastID] = (path, tell)
    guard self.watchDirectories() else {
      self.remove(self.lastID)
      return nil
    }
    return self.lastID
  }

  func remove(_ id: ID) {
    self.watched[id] = nil
    guard self.watched.isEmpty else {
      _ = self.watchDirectories()
      return
    }
    self.reactor.forget(self.descriptor)
    close(self.descriptor)
    (self.descriptor, self.names) = (-1, [:])
  }

  func ready() {
    var concerned: Set<ID> = []
    withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
      let count = read(self.descriptor, buffer.baseAddress, buffer.count)
      guard count > 0 else { return }
      concerned = self.concerned(by: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }
    guard !concerned.isEmpty else { return }
    // A directory of a path may have appeared or disappeared.
    _ = self.watchDirectories()
    for id in concerned { self.watched[id]?.tell() }
  }

  private func open() -> Bool {
    if self.descriptor >= 0 { return true }
    self.descriptor = inotify_init1(CInt(IN_CLOEXEC) | CInt(IN_NONBLOCK))
    guard self.descriptor >= 0 else { return false }
    do {
      try self.reactor.watch(self.descriptor, self)
      return true
    } catch {
      close(self.descriptor)
      self.descriptor = -1
      return false
    }
  }

  // MARK: - Directories

  private static let mask = UInt32(
    bitPattern: CInt(IN_CREATE) | CInt(IN_MOVED_TO) | CInt(IN_ATTRIB) | CInt(IN_DELETE_SELF)
      | CInt(IN_MOVE_SELF) | CInt(IN_ONLYDIR))

  /// Watches the nearest existing directory of each path, and no others.
  ///
  /// - Returns: Whether each path has such a directory.
  private func watchDirectories() -> Bool {
    var names: [CInt: [String: Set<ID>]] = [:]
    var isComplete = true
    for (id, watched) in self.watched {
      if let (directory, name) = self.watchDirectory(of: watched.path) {
        names[directory, default: [:]][name, default: []].insert(id)
      } else {
        isComplete = false
      }
    }
    for former in self.names.keys where names[former] == nil {
      inotify_rm_watch(self.descriptor, former)
    }
    self.names = names
    return isComplete
  }

  private func watchDirectory(of path: String) -> (CInt, name: String)? {
    let nearest = Self.split(path).directory
    // A directory may appear between two calls, so try again.
    for _ in 0..<8 {
      var (directory, name) = Self.split(path)
      while true {
        let watch = inotify_add_watch(self.descriptor, directory, Self.mask)
        if watch >= 0 {
          if directory == nearest || access("\(directory)/\(name)", F_OK) != 0 {
            return (watch, name)
          }
          break
        }
        guard errno == ENOENT || errno == ENOTDIR, directory != "/", directory != "." else {
          return nil
        }
        (directory, name) = Self.split(directory)
      }
    }
    return nil
  }

  /// Returns the directory of a path, and its last component.
  private static func split(_ path: String) -> (directory: String, name: String) {
    guard let slash = path.lastIndex(of: "/") else { return (".", path) }
    let directory = String(path[..<slash])
    return (directory.isEmpty ? "/" : directory, String(path[path.index(after: slash)...]))
  }

  /// Returns the sockets with a name or a directory that the events report.
  private func concerned(by events: UnsafeRawBufferPointer) -> Set<ID> {
    let header = MemoryLayout<inotify_event>.size
    var (rest, concerned) = (events[...], Set<ID>())
    while rest.count >= header {
      let event = UnsafeRawBufferPointer(rebasing: rest).loadUnaligned(as: inotify_event.self)
      let name = String(
        decoding: rest.dropFirst(header).prefix(Int(event.len)).prefix { $0 != 0 }, as: UTF8.self)
      rest = rest.dropFirst(header + Int(event.len))
      // -1 means that events were lost.
      if event.wd == -1 { return Set(self.watched.keys) }
      for (known, ids) in self.names[event.wd] ?? [:] where name.isEmpty || name == known {
        concerned.formUnion(ids)
      }
    }
    return concerned
  }
}
