public import GRPCCore

/// Encodes messages for gRPC.
public struct ProtobufSerializer<Value: Message>: MessageSerializer {
  public init() {}

  public func serialize<Bytes: GRPCContiguousBytes>(_ message: Value) throws -> Bytes {
    Bytes(message.serializedBytes())
  }
}

/// Decodes messages of gRPC.
public struct ProtobufDeserializer<Value: Message>: MessageDeserializer {
  public init() {}

  /// - Throws: INVALID_ARGUMENT if the bytes are malformed.
  public func deserialize<Bytes: GRPCContiguousBytes>(_ bytes: Bytes) throws -> Value {
    let bytes = bytes.withUnsafeBytes { [UInt8]($0) }
    do {
      return try Value(serializedBytes: bytes)
    } catch {
      throw RPCError(code: .invalidArgument, message: "a message is malformed: \(error)")
    }
  }
}

/// Passes on messages that are already encoded. The code of calls with this coder is compiled once,
/// and not for each type of message.
public struct EncodedCoder: MessageSerializer, MessageDeserializer {
  public init() {}

  public func serialize<Bytes: GRPCContiguousBytes>(_ message: [UInt8]) throws -> Bytes {
    Bytes(message)
  }

  public func deserialize<Bytes: GRPCContiguousBytes>(_ bytes: Bytes) throws -> [UInt8] {
    bytes.withUnsafeBytes { [UInt8]($0) }
  }
}
