internal import Connectivity

/// Messages of the call `WatchPath`.
enum WatchPathMessages {
  /// Returns the path in a response.
  ///
  /// - Throws: ``ProtobufError`` if it is malformed.
  static func path(_ message: [UInt8]) throws(ProtobufError) -> KernelPath {
    var path = ProtobufReader.Bytes()
    try ProtobufReader.read(message[...]) { field in
      if field.number == 2 { path = field.message ?? [] }
    }
    return try KernelPath(message: path)
  }

  static func request(_ destination: IPAddress, mark: UInt32, via link: String?) -> [UInt8] {
    var writer = ProtobufWriter()
    writer.put(1, destination.description)
    if mark != 0 { writer.put(2, UInt64(mark)) }
    if let link { writer.put(3, link) }
    return writer.bytes
  }
}
