internal import Connectivity
internal import ConnectivityProtobuf

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
    writer.write(present: destination.description, as: 1)
    if mark != 0 { writer.write(present: UInt64(mark), as: 2) }
    if let link { writer.write(present: link, as: 3) }
    return writer.bytes
  }
}
