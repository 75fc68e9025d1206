import SwiftProtobuf

#if canImport(FoundationEssentials)
  public import struct FoundationEssentials.Data
#else
  public import struct Foundation.Data
#endif

/// The .proto files from which this module was generated, as descriptors by `protoc`. The
/// reflection service answers from them.
public struct FileDescriptors: Sendable {
  /// One file.
  public struct File: Sendable {
    public let name: String
    /// A serialised `google.protobuf.FileDescriptorProto`.
    public let bytes: Data
    let imports: [String]
    let symbols: Set<String>
  }

  private let files: [String: File]
  /// The full names of the services, in alphabetical order.
  public let services: [String]

  /// - Throws: An error if the embedded descriptors are damaged.
  public init() throws {
    let set = try Google_Protobuf_FileDescriptorSet(
      serializedBytes: PackageResources.descriptors_binpb)
    var files: [String: File] = [:]
    for file in set.file {
      files[file.name] = File(
        name: file.name, bytes: try file.serializedData(), imports: file.dependency,
        symbols: file.symbols)
    }
    self.files = files
    self.services = set.file.flatMap { file in file.service.map { "\(file.package).\($0.name)" } }
      .sorted()
  }

  /// Returns the file with this name, as used in imports, or `nil` if it does not exist.
  public func file(named name: String) -> File? { self.files[name] }

  /// Returns the file that declares a message, an enum, a service or a method, by its full name.
  public func file(declaring symbol: String) -> File? {
    self.files.values.first { $0.symbols.contains(symbol) }
  }

  /// Returns a file and all its imports, itself first.
  public func withImports(_ file: File) -> [File] {
    var found = [file]
    var next = found.startIndex
    while next < found.endIndex {
      for name in found[next].imports where !found.contains(where: { $0.name == name }) {
        if let file = self.files[name] { found.append(file) }
      }
      next += 1
    }
    return found
  }
}

extension Google_Protobuf_FileDescriptorProto {
  fileprivate var symbols: Set<String> {
    var symbols: Set<String> = []
    func add(_ messages: [Google_Protobuf_DescriptorProto], in scope: String) {
      for message in messages {
        let name = "\(scope).\(message.name)"
        symbols.insert(name)
        symbols.formUnion(message.field.map { "\(name).\($0.name)" })
        symbols.formUnion(message.enumType.map { "\(name).\($0.name)" })
        add(message.nestedType, in: name)
      }
    }
    add(self.messageType, in: self.package)
    symbols.formUnion(self.enumType.map { "\(self.package).\($0.name)" })
    for service in self.service {
      symbols.insert("\(self.package).\(service.name)")
      symbols.formUnion(service.method.map { "\(self.package).\(service.name).\($0.name)" })
    }
    return symbols
  }
}
