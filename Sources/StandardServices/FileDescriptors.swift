public import ConnectivityProtobuf

/// The .proto files from which this module was generated, as descriptors by `protoc`. The
/// reflection service answers from them.
public struct FileDescriptors: Sendable {
  /// One file.
  public struct File: Sendable {
    public let name: String
    /// A serialised `google.protobuf.FileDescriptorProto`.
    public let bytes: [UInt8]
    let imports: [String]
    let symbols: Set<String>
  }

  private let files: [String: File]
  /// The full names of the services, in alphabetical order.
  public let services: [String]

  /// - Throws: An error if the embedded descriptors are damaged.
  public init() throws(ProtobufError) {
    var (files, services): ([String: File], [String]) = ([:], [])
    let set = PackageResources.descriptors_binpb
    try ProtobufReader.read(set[...]) { (field) throws(ProtobufError) in
      guard field.number == 1, let bytes = field.message else { return }
      let descriptor = try FileDescriptor(bytes)
      files[descriptor.name] = File(
        name: descriptor.name, bytes: [UInt8](bytes), imports: descriptor.imports,
        symbols: descriptor.symbols)
      services += descriptor.services
    }
    self.files = files
    self.services = services.sorted()
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

/// A `google.protobuf.FileDescriptorProto`, as far as reflection reads it.
private struct FileDescriptor {
  private(set) var name = ""
  private(set) var imports: [String] = []
  /// The full names of the file's declarations.
  private(set) var symbols: Set<String> = []
  private(set) var services: [String] = []

  /// - Throws: An error if the bytes are malformed.
  init(_ bytes: ProtobufReader.Bytes) throws(ProtobufError) {
    var package = ""
    try ProtobufReader.read(bytes) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.name = try field.string ?? ""
      case 2: package = try field.string ?? ""
      case 3: self.imports.append(try field.string ?? "")
      default: break
      }
    }
    try ProtobufReader.read(bytes) { (field) throws(ProtobufError) in
      guard let declaration = field.message else { return }
      switch field.number {
      case 4: try self.add(message: declaration, in: package)
      case 5: try self.add(declaration, in: package)
      case 6:
        self.services.append(try self.add(declaration, in: package, withParts: 2))
      default: break
      }
    }
  }

  private mutating func add(
    message: ProtobufReader.Bytes, in scope: String
  ) throws(ProtobufError) {
    let name = try self.add(message, in: scope, withParts: 2)
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      guard let inner = field.message else { return }
      switch field.number {
      case 3: try self.add(message: inner, in: name)
      case 4: try self.add(inner, in: name)
      default: break
      }
    }
  }

  /// Adds the symbols of a declaration and of its fields or methods. In each declaration, field 1
  /// is the name.
  ///
  /// - Parameter parts: The number of the field that contains the fields or methods.
  /// - Returns: The full name of the declaration.
  @discardableResult
  private mutating func add(
    _ declaration: ProtobufReader.Bytes, in scope: String, withParts parts: Int? = nil
  ) throws(ProtobufError) -> String {
    var name = scope
    try ProtobufReader.read(declaration) { (field) throws(ProtobufError) in
      if field.number == 1 { name = "\(scope).\(try field.string ?? "")" }
    }
    self.symbols.insert(name)
    try ProtobufReader.read(declaration) { (field) throws(ProtobufError) in
      if field.number == parts, let part = field.message { try self.add(part, in: name) }
    }
    return name
  }
}
