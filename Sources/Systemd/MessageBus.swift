import CSystemd
import Glibc

/// A connection to the system bus (sd-bus(3)) that passes on messages as they arrive, without a
/// thread or a timer.
///
/// No call blocks. The owner waits for ``fileDescriptor`` and ``events``, or for ``timeout``, and
/// then calls ``process()`` until it is idle.
///
/// Thread-safety: one thread only.
public final class MessageBus {
  private let bus: OpaquePointer

  /// The name and the interface of the bus itself.
  static let daemon = "org.freedesktop.DBus"
  static let daemonPath = "/org/freedesktop/DBus"

  /// The result of one step.
  public enum Step {
    /// There is nothing to do until the descriptor is ready.
    case idle
    /// The connection itself made progress. There may be more to do.
    case worked
    case message(BusMessage)
  }

  /// Begins to connect to `DBUS_SYSTEM_BUS_ADDRESS` or the default address of the system bus.
  ///
  /// - Throws: If the attempt fails immediately, usually because no process listens there.
  public init() throws(SystemdError) {
    var bus: OpaquePointer?
    let result = sd_bus_open_system(&bus)
    guard result >= 0, let bus else { throw SystemdError("system bus", errno: -result) }
    self.bus = bus
  }

  deinit { sd_bus_close_unref(self.bus) }

  /// The descriptor to poll for ``events`` (poll(2)), or -1 for none.
  public var fileDescriptor: CInt { max(-1, sd_bus_get_fd(self.bus)) }

  /// The events for poll(2).
  public var events: Int16 { Int16(clamping: max(0, sd_bus_get_events(self.bus))) }

  /// The time from now until ``process()`` is due even if the descriptor is not ready, or `nil` for
  /// never. Always `nil` once the bus has answered.
  public var timeout: Duration? {
    var due = UInt64.max
    guard sd_bus_get_timeout(self.bus, &due) >= 0, due != .max else { return nil }
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1000
    return due > microseconds ? .microseconds(Int64(clamping: due - microseconds)) : .zero
  }

  /// Calls a method. Any answer arrives as a message with the returned number. The bus does not
  /// start a service for the call.
  ///
  /// - Parameter arguments: The arguments, all strings.
  /// - Returns: The ``BusMessage/answeredCall`` of the answer.
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

  /// Calls a method with arguments of any type.
  ///
  /// - Parameter startsService: Whether the bus may start the owner of the name.
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

  /// Does one step of pending work.
  ///
  /// - Throws: If the connection has ended.
  public func process() throws(SystemdError) -> Step {
    var message: OpaquePointer?
    let result = try check(sd_bus_process(self.bus, &message))
    if let message {
      let message = BusMessage(adopting: message)
      // sd-bus itself creates this message when the connection has ended.
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
  /// - Returns: The answer, which may be an error, or `nil` if it did not arrive in time.
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

/// Returns the type code for sd-bus.
func busType(_ letter: Unicode.Scalar) -> CChar { CChar(truncatingIfNeeded: letter.value) }

@discardableResult
func check(_ result: CInt) throws(SystemdError) -> CInt {
  guard result >= 0 else { throw SystemdError("system bus", errno: -result) }
  return result
}
