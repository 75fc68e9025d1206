import CSystemd
import Glibc

/// A connection to the system bus (sd-bus(3)), of D-Bus's messages as they come, and without a thread or a timer of its own.
///
/// No call waits: whoever has one waits for ``fileDescriptor`` and ``events``, or for ``timeout``, and then calls ``process()``
/// until that is idle.
///
/// Thread-safety: one thread only.
public final class MessageBus {
  private let bus: OpaquePointer

  /// The name and the interface of the bus itself.
  static let daemon = "org.freedesktop.DBus"
  static let daemonPath = "/org/freedesktop/DBus"

  /// What came of one step.
  public enum Step {
    /// Nothing is left to do until the descriptor says so.
    case idle
    /// The connection itself needed something; there may be more.
    case worked
    case message(BusMessage)
  }

  /// Begins to connect, to `DBUS_SYSTEM_BUS_ADDRESS` or where the system's bus listens.
  ///
  /// - Throws: why that cannot even begin: mostly that nobody listens there.
  public init() throws(SystemdError) {
    var bus: OpaquePointer?
    let result = sd_bus_open_system(&bus)
    guard result >= 0, let bus else { throw SystemdError("system bus", errno: -result) }
    self.bus = bus
  }

  deinit { sd_bus_close_unref(self.bus) }

  /// What to wait for with poll(2), of the ``events``; -1 for nothing.
  public var fileDescriptor: CInt { max(-1, sd_bus_get_fd(self.bus)) }

  /// The events of poll(2).
  public var events: Int16 { Int16(clamping: max(0, sd_bus_get_events(self.bus))) }

  /// When to go on although the descriptor says nothing, from now; `nil` where that is never, as always once the bus has answered.
  public var timeout: Duration? {
    var due = UInt64.max
    guard sd_bus_get_timeout(self.bus, &due) >= 0, due != .max else { return nil }
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1000
    return due > microseconds ? .microseconds(Int64(clamping: due - microseconds)) : .zero
  }

  /// Calls a method; the answer, if there ever is one, is a message like others, with this number. Nobody is started for its sake.
  ///
  /// - Parameter arguments: all are strings.
  /// - Returns: ``BusMessage/answeredCall`` of the answer.
  @discardableResult
  public func call(
    _ destination: String, _ path: String, _ interface: String, _ member: String,
    _ arguments: [String] = []
  ) throws(SystemdError) -> UInt64 {
    try self.call(destination, path, interface, member, startsService: false) {
      call throws(SystemdError) in
      for argument in arguments { try call.append(argument) }
    }
  }

  /// The same, with arguments of any type.
  ///
  /// - Parameter startsService: whether the bus is to start who owns the name.
  func call(
    _ destination: String, _ path: String, _ interface: String, _ member: String,
    startsService: Bool, _ write: (BusCall) throws(SystemdError) -> Void
  ) throws(SystemdError) -> UInt64 {
    var message: OpaquePointer?
    try check(
      sd_bus_message_new_method_call(self.bus, &message, destination, path, interface, member))
    defer { sd_bus_message_unref(message) }
    guard let message else { throw SystemdError("system bus", errno: ENOMEM) }
    try check(sd_bus_message_set_auto_start(message, startsService ? 1 : 0))
    try write(BusCall(to: message))
    var number: UInt64 = 0
    try check(sd_bus_send(self.bus, message, &number))
    return number
  }

  /// Does one thing that there is to do.
  ///
  /// - Throws: that the connection has ended.
  public func process() throws(SystemdError) -> Step {
    var message: OpaquePointer?
    let result = try check(sd_bus_process(self.bus, &message))
    if let message {
      let message = BusMessage(adopting: message)
      // The last thing that a bus says, which the library makes up.
      if message.interface == "org.freedesktop.DBus.Local" {
        throw SystemdError("system bus", errno: ENOTCONN)
      }
      return .message(message)
    }
    return result > 0 ? .worked : .idle
  }
}

extension MessageBus {
  /// Waits for the answer to a call, and drops other messages.
  ///
  /// - Returns: the answer, which may be an error, or `nil` if it has not come in time.
  func answer(
    to call: UInt64, by deadline: ContinuousClock.Instant
  ) throws(SystemdError) -> BusMessage? {
    while true {
      let left = ContinuousClock.now.duration(to: deadline)
      guard left > .zero else { return nil }
      switch try self.process() {
      case .worked: continue
      case .message(let message):
        if message.answeredCall == call { return message }
      case .idle:
        var descriptor = pollfd(fd: self.fileDescriptor, events: self.events, revents: 0)
        let pause = min(left, self.timeout ?? left)
        poll(
          &descriptor, 1,
          Int32(
            clamping: pause.components.seconds * 1000 + 1
              + pause.components.attoseconds / 1_000_000_000_000_000))
      }
    }
  }
}

/// The letter of a type in a signature.
func busType(_ letter: Unicode.Scalar) -> CChar { CChar(truncatingIfNeeded: letter.value) }

@discardableResult
func check(_ result: CInt) throws(SystemdError) -> CInt {
  guard result >= 0 else { throw SystemdError("system bus", errno: -result) }
  return result
}
