import Glibc

/// polkit(8), which administrators tell who may do what.
public enum Polkit {
  private static let service = "org.freedesktop.PolicyKit1"

  /// Asks whether a process may do something, and waits for the answer: to be called on a thread of its own. Nobody is asked for a
  /// password; where polkit would have that done, the answer is no.
  ///
  /// The process's number may be another's by now. Its user is what polkit is told, who is the caller's to vouch for.
  ///
  /// - Parameters:
  ///   - action: Of a `.policy` file, which names this program's user as an owner of it, unless that is root.
  ///   - time: How long to wait, for the bus and for polkit, which the bus may have to start.
  /// - Returns: `nil` where polkit is not there, does not answer in time, makes no sense, or knows no such action. Of a process that is
  ///   gone polkit can say nothing, which is not for its user to make use of: that is a no.
  public static func allows(
    _ action: String, process: Int32, user: UInt32, within time: Duration
  ) -> Bool? {
    let deadline = ContinuousClock.now.advanced(by: time)
    return try? Self.answer(action, process, user, by: deadline)
  }

  /// Whether nobody can look at it any more, or never could: one of another pid namespace is 0.
  private static func isGone(_ process: Int32) -> Bool {
    process <= 0 || kill(process, 0) != 0 && errno == ESRCH
  }

  private static func answer(
    _ action: String, _ process: Int32, _ user: UInt32, by deadline: ContinuousClock.Instant
  ) throws(SystemdError) -> Bool? {
    let bus = try MessageBus()
    let question = try bus.call(
      Self.service, "/org/freedesktop/PolicyKit1/Authority", "\(Self.service).Authority",
      "CheckAuthorization", startsService: true
    ) { call throws(SystemdError) in
      try call.enclose("r", "sa{sv}") { call throws(SystemdError) in
        try call.append("unix-process")
        try call.enclose("a", "{sv}") { call throws(SystemdError) in
          try call.appendEntry("pid", "u", UInt32(clamping: process))
          // polkit looks at it itself: a service in a sandbox sees no processes.
          try call.appendEntry("start-time", "t", UInt64(0))
          try call.appendEntry("uid", "i", Int32(bitPattern: user))
        }
      }
      try call.append(action)
      // No details; nobody is asked; and what is not waited for any more, polkit may do all the same.
      try call.enclose("a", "{ss}") { _ in }
      try call.append("u", UInt32(0))
      try call.append("")
    }
    while true {
      let left = ContinuousClock.now.duration(to: deadline)
      guard left > .zero else { return nil }
      switch try bus.process() {
      case .worked: continue
      case .message(let message):
        guard message.answeredCall == question else { continue }
        guard message.isError else { return message.readFlag(at: "bba{ss}") }
        // Where polkit is not there, the bus says so.
        let isPolkits = message.sender != "org.freedesktop.DBus"
        return isPolkits && Self.isGone(process) ? false : nil
      case .idle:
        var descriptor = pollfd(fd: bus.fileDescriptor, events: bus.events, revents: 0)
        let pause = min(left, bus.timeout ?? left)
        poll(
          &descriptor, 1,
          Int32(
            clamping: pause.components.seconds * 1000 + 1
              + pause.components.attoseconds / 1_000_000_000_000_000))
      }
    }
  }
}
