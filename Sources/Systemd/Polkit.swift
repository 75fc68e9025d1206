import Glibc

/// Queries polkit(8), which authorizes actions by the administrator's rules.
public enum Polkit {
  public enum Verdict: Hashable, Sendable {
    case allowed, denied
    /// The machine has no polkit: no process owns its name on the bus, and the bus cannot start
    /// one.
    case absent
    /// polkit exists, or may exist, but has not decided, for this reason. This is not permission.
    case unavailable(String)
  }

  private static let service = "org.freedesktop.PolicyKit1"

  /// Asks polkit whether a process may perform an action, and waits for the answer. Call it on a
  /// separate thread.
  ///
  /// Never prompts for a password: if polkit would require one, the verdict is `denied`. The caller
  /// must ensure that `process` belongs to `user`, and that its PID has not passed to another
  /// process when this returns.
  ///
  /// - Parameters:
  ///   - action: The action of a `.policy` file. Unless this program runs as root, the file must
  ///     name its user as an owner of the action.
  ///   - time: The time limit for the bus and for polkit, which the bus may have to start.
  public static func verdict(
    on action: String, process: Int32, user: UInt32, within time: Duration
  ) -> Verdict {
    let deadline = ContinuousClock.now.advanced(by: time)
    let bus: MessageBus
    do throws(SystemdError) {
      bus = try MessageBus()
    } catch {
      // Without a bus, polkit is absent. Other errors, such as a full backlog, do not prove its
      // absence.
      return [ENOENT, ECONNREFUSED].contains(error.errno) ? .absent : .unavailable("\(error)")
    }
    do throws(SystemdError) {
      return try Self.verdict(action, process, user, from: bus, by: deadline)
    } catch {
      return .unavailable("\(error)")
    }
  }

  private static func verdict(
    _ action: String, _ process: Int32, _ user: UInt32, from bus: MessageBus,
    by deadline: ContinuousClock.Instant
  ) throws(SystemdError) -> Verdict {
    let question = try bus.call(
      Self.service, "/org/freedesktop/PolicyKit1/Authority", "\(Self.service).Authority",
      "CheckAuthorization", startsService: true
    ) { call throws(SystemdError) in
      try call.enclose("r", "sa{sv}") { call throws(SystemdError) in
        try call.append("unix-process")
        try call.enclose("a", "{sv}") { call throws(SystemdError) in
          try call.appendEntry("pid", "u", UInt32(clamping: process))
          // 0 lets polkit read the start time itself, because a sandboxed service sees no
          // processes.
          try call.appendEntry("start-time", "t", UInt64(0))
          try call.appendEntry("uid", "i", Int32(bitPattern: user))
        }
      }
      try call.append(action)
      // No details, no interaction with the user, and no cancellation.
      try call.enclose("a", "{ss}") { _ in }
      try call.append("u", UInt32(0))
      try call.append("")
    }
    guard let answer = try bus.answer(to: question, by: deadline) else {
      return .unavailable("polkit has not answered in time")
    }
    guard answer.isError else {
      guard let isAllowed = answer.readFlag(at: "bba{ss}") else {
        return .unavailable("invalid answer from polkit")
      }
      return isAllowed ? .allowed : .denied
    }
    if answer.sender == MessageBus.daemon, try Self.isAbsent(from: bus, by: deadline) {
      return .absent
    }
    return .unavailable(answer.errorText ?? "polkit has failed")
  }

  /// Whether no process owns polkit's name, and the bus has no service file to start one. An
  /// installed polkit that does not start is not absent. Otherwise a user could avoid its rules by
  /// crashing it.
  private static func isAbsent(
    from bus: MessageBus, by deadline: ContinuousClock.Instant
  ) throws(SystemdError) -> Bool {
    func ask(_ method: String, _ arguments: [String] = []) throws(SystemdError) -> BusMessage? {
      let call = try bus.call(
        MessageBus.daemon, MessageBus.daemonPath, MessageBus.daemon, method, arguments)
      return try bus.answer(to: call, by: deadline)
    }
    guard let names = try ask("ListActivatableNames")?.readTexts(max: 65_536),
      !names.contains(Self.service), let owner = try ask("GetNameOwner", [Self.service])
    else { return false }
    return owner.isError
  }
}
