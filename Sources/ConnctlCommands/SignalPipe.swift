import Glibc
import Synchronization
import UnixTransport

/// Signals that can be waited for as bytes can. By a handler, and not by signalfd(2), which is told of what all threads block: one that
/// the system starts for the program's tasks does not for a moment, and the kernel would let that one have it.
///
/// Thread-safety: any thread may wait, one at a time.
final class SignalPipe: Sendable {
  /// Can be read when there is a signal.
  let descriptor: CInt
  private let end: CInt
  private let former: [(signal: CInt, action: sigaction)]

  /// Catches the signals from now on, until it goes. There is one in a process at a time.
  ///
  /// - Throws: where there are no more descriptors to be had.
  init(_ signals: [CInt]) throws(SystemError) {
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

  /// Tells of each signal, on a thread of its own, for as long as the program runs.
  static func follow(_ signals: [CInt], _ tell: @escaping @Sendable () -> Void) throws(SystemError)
  {
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

  /// The first signal that was not taken yet; `nil` where there is none.
  func next() -> CInt? {
    var signal: UInt8 = 0
    while true {
      let count = Glibc.read(self.descriptor, &signal, 1)
      if count == 1 { return CInt(signal) }
      if count == 0 || errno != EINTR { return nil }
    }
  }
}

/// Where the handler writes.
private let toldTo = Atomic<CInt>(-1)

/// The handler: signal-safety(7) allows it no more than this.
private func tell(_ signal: CInt) {
  let error = errno
  var byte = UInt8(truncatingIfNeeded: signal)
  _ = Glibc.write(toldTo.load(ordering: .relaxed), &byte, 1)
  errno = error
}
