import CSystemd

/// A method call. The caller appends its arguments in order.
struct BusCall {
  private let message: OpaquePointer

  init(to message: OpaquePointer) { self.message = message }

  func append(_ text: String) throws(SystemdError) {
    try check(sd_bus_message_append_basic(self.message, busType("s"), text))
  }

  /// - Parameter type: The D-Bus type with the number's width.
  func append(_ type: Unicode.Scalar, _ number: some FixedWidthInteger) throws(SystemdError) {
    let result = withUnsafeBytes(of: number) {
      sd_bus_message_append_basic(self.message, busType(type), $0.baseAddress)
    }
    try check(result)
  }

  /// Appends an entry of `a{sv}`.
  func appendEntry(
    _ name: String, _ type: Unicode.Scalar, _ number: some FixedWidthInteger
  ) throws(SystemdError) {
    try self.enclose("e", "sv") { call throws(SystemdError) in
      try call.append(name)
      try call.enclose("v", String(type)) { call throws(SystemdError) in
        try call.append(type, number)
      }
    }
  }

  /// Appends a container: an array (`a`), structure (`r`), dictionary entry (`e`) or variant (`v`).
  func enclose(
    _ type: Unicode.Scalar, _ contents: String,
    _ write: (BusCall) throws(SystemdError) -> Void
  ) throws(SystemdError) {
    try check(sd_bus_message_open_container(self.message, busType(type), contents))
    try write(self)
    try check(sd_bus_message_close_container(self.message))
  }
}
