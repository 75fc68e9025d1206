import CLinux
import Glibc
package import LinuxSupport
import Synchronization

/// Makes signals readable as bytes of a descriptor, which a signal handler writes. signalfd(2)
/// would require all threads to block the signals. A thread that the system starts for the
/// program's tasks leaves a signal unblocked for a moment, in which the kernel could deliver it
/// there.
///
/// Thread-safety: any thread may wait, one at a time.
package final class SignalPipe: Sendable {
  /// Readable when there is a signal.
  package let descriptor: CInt
  private let end: CInt
  private let former: [(signal: CInt, action: sigaction)]

  /// Catches the signals until the pipe is released. A process may have only one pipe at a time.
  ///
  /// - Throws: An error if no descriptors are left.
  package init(_ signals: [CInt]) throws(SystemError) {
    var ends: [CInt] = [-1, -1]
    let type = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw SystemError() }
    (self.descriptor, self.end) = (ends[0], ends[1])
    toldTo.store(ends[1], ordering: .relaxed)
    self.former = signals.map { signal in
      var (action, former) = (sigaction(), sigaction())
      action.__sigaction_handler.sa_handler = tell
      action.sa_flags = SA_RESTART
      sigaction(signal, &action, &former)
      return (signal, former)
    }
  }

  deinit {
    for (signal, action) in self.former {
      var action = action
      sigaction(signal, &action, nil)
    }
    toldTo.store(-1, ordering: .relaxed)
    close(self.descriptor)
    close(self.end)
  }

  /// Calls `tell` for each signal on a separate thread, as long as the program runs.
  package static func follow(
    _ signals: [CInt], _ tell: @escaping @Sendable () -> Void
  ) throws(SystemError) {
    let pipe = try SignalPipe(signals)
    let isStarted = Thread.start(named: "connctl-signals") {
      while true {
        var polled = pollfd(fd: pipe.descriptor, events: Int16(POLLIN), revents: 0)
        poll(&polled, 1, -1)
        while pipe.next() != nil { tell() }
      }
    }
    if !isStarted { throw SystemError() }
  }

  /// Returns the first pending signal, or `nil`.
  package func next() -> CInt? {
    var signal: UInt8 = 0
    while true {
      let count = Glibc.read(self.descriptor, &signal, 1)
      if count == 1 { return CInt(signal) }
      if count == 0 || errno != EINTR { return nil }
    }
  }
}

extension Reactor {
  /// Catches the signals for as long as the process runs, and calls `tell` with each of them on the
  /// reactor's thread. Must be called on that thread.
  ///
  /// - Throws: An error if no descriptors are left.
  package func follow(
    _ signals: [CInt], _ tell: @escaping (_ signal: CInt) -> Void
  ) throws(SystemError) {
    let pipe = try SignalPipe(signals)
    try self.watch(pipe.descriptor, SignalReader(pipe, tell))
  }

  private final class SignalReader: Pollable {
    let account: Account? = nil
    private let pipe: SignalPipe
    private let tell: (CInt) -> Void

    init(_ pipe: SignalPipe, _ tell: @escaping (CInt) -> Void) {
      (self.pipe, self.tell) = (pipe, tell)
    }

    func ready() { while let signal = self.pipe.next() { self.tell(signal) } }
  }
}

/// The descriptor to which the handler writes.
private let toldTo = Atomic<CInt>(-1)

/// The signal handler, which may do nothing more than this (signal-safety(7)).
private func tell(_ signal: CInt) {
  let error = errno
  var byte = UInt8(truncatingIfNeeded: signal)
  _ = Glibc.write(toldTo.load(ordering: .relaxed), &byte, 1)
  errno = error
}
