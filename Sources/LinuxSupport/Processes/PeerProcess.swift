#if os(Linux)
  private import CLinux
  private import Glibc
  private import Synchronization

  /// A reference to a process that stays valid if its pid is reused: a pidfd (pidfd_open(2)).
  package final class ProcessReference: Sendable {
    private let descriptor: CInt

    /// Takes ownership of the descriptor.
    init(taking descriptor: CInt) { self.descriptor = descriptor }

    /// Refers to the process that has this pid now, or returns `nil` if none has it.
    package convenience init?(_ pid: Int32) {
      let descriptor = clinux_process_descriptor(pid)
      guard descriptor >= 0 else { return nil }
      self.init(taking: descriptor)
    }

    deinit { close(self.descriptor) }

    /// Whether the process has not exited. Until then, its pid cannot be reused.
    package var isAlive: Bool {
      var state = pollfd(fd: self.descriptor, events: Int16(POLLIN), revents: 0)
      return poll(&state, 1, 0) == 0
    }
  }

  /// The process that opened a client's connection. It may have exited, and its pid may belong to
  /// another process.
  ///
  /// Safe to use from any thread.
  package final class PeerProcess: Sendable {
    private enum Source {
      /// The kernel remembers the process of this socket.
      case socket(CInt)
      case reference(ProcessReference)
      case none
    }

    private let source: Mutex<Source>

    /// Whether the kernel remembers the process of each connection (SO_PEERPIDFD, since Linux 6.5).
    package static let isRemembered: Bool = {
      var pair: [CInt] = [-1, -1]
      guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &pair) == 0 else { return false }
      defer { for socket in pair { close(socket) } }
      let descriptor = clinux_peer_process_descriptor(pair[0])
      if descriptor >= 0 { close(descriptor) }
      return descriptor >= 0
    }()

    /// - Parameters:
    ///   - socket: The connection. It must be open until ``forget()``.
    ///   - pid: The pid of SO_PEERCRED. Without `isRemembered`, the process that has the pid now is
    ///     assumed to be the process that connected. Between connect(2) and accept(2) the pid could
    ///     have been reused.
    package init(of socket: CInt, pid: Int32, isRemembered: Bool = PeerProcess.isRemembered) {
      self.source = Mutex(
        isRemembered ? .socket(socket) : ProcessReference(pid).map(Source.reference) ?? .none)
    }

    /// Creates a reference to a known process.
    package init(_ reference: ProcessReference) { self.source = Mutex(.reference(reference)) }

    /// Returns the process, or `nil` if it has exited and was reaped.
    package func open() -> ProcessReference? {
      self.source.withLock { source in
        switch source {
        case .reference(let process): return process
        case .socket(let socket):
          let descriptor = clinux_peer_process_descriptor(socket)
          return descriptor >= 0 ? ProcessReference(taking: descriptor) : nil
        case .none: return nil
        }
      }
    }

    /// Forgets the socket, because the connection is about to be closed.
    package func forget() { self.source.withLock { $0 = .none } }
  }
#endif
