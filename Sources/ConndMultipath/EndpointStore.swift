import Connectivity
import Glibc
import LinuxSupport
import Netlink

/// The endpoints that this program made, in a file that survives its restarts. Without the file
/// they would count as another program's and never be deleted.
struct EndpointStore {
  /// The path of the file, or `nil` to keep the endpoints only in memory.
  private let path: String?
  /// The endpoints as they were made. The number is 0 until the kernel's list has shown it.
  private(set) var endpoints: Set<MultipathEndpoint>

  /// Reads the file. A missing or malformed one counts as empty.
  ///
  /// - Parameter isWritten: Whether changes are written to the file.
  init(path: String?, isWritten: Bool = true) {
    self.path = isWritten ? path : nil
    self.endpoints = path.map { Set(Self.read($0)) } ?? []
  }

  /// - Throws: An error if the file cannot be written.
  mutating func insert(_ endpoint: MultipathEndpoint) throws(StoreError) {
    try self.replace(self.endpoints.union([endpoint.asMade]))
  }

  /// - Throws: An error if the file cannot be written.
  mutating func remove(_ endpoint: MultipathEndpoint) throws(StoreError) {
    try self.replace(self.endpoints.subtracting([endpoint.asMade]))
  }

  /// Learns the numbers of new endpoints, and forgets endpoints that the kernel's list no longer
  /// has unchanged. Another program may add an endpoint for the same address and link.
  ///
  /// - Throws: An error if the file cannot be written.
  mutating func compare(with list: [MultipathEndpoint]) throws(StoreError) {
    let found = list.map(\.asMade).filter { endpoint in
      var unnumbered = endpoint
      unnumbered.id = 0
      return self.endpoints.contains(endpoint) || self.endpoints.contains(unnumbered)
    }
    try self.replace(Set(found))
  }

  private mutating func replace(_ endpoints: Set<MultipathEndpoint>) throws(StoreError) {
    guard endpoints != self.endpoints else { return }
    self.endpoints = endpoints
    try self.write()
  }

  private static func read(_ path: String) -> [MultipathEndpoint] {
    readFile(path)?.split(separator: "\n").compactMap { line in
      let words = line.split(separator: " ")
      // Earlier versions wrote no number.
      guard (2...3).contains(words.count), let address = IPAddress(String(words[0])),
        let link = UInt32(words[1]), let id = words.count == 3 ? UInt8(words[2]) : 0
      else { return nil }
      return MultipathEndpoint(id: id, address, link: link, .subflow)
    } ?? []
  }

  /// Replaces the file in one step.
  private func write() throws(StoreError) {
    guard let path = self.path else { return }
    let lines = self.endpoints.map { "\($0.address) \($0.link) \($0.id)\n" }.sorted().joined()
    let temporary = path + ".new"
    // An existing file may be another user's symbolic link, so a new file is created.
    unlink(temporary)
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
    guard descriptor >= 0, let file = fdopen(descriptor, "w") else {
      throw StoreError(path, errno)
    }
    let isWritten = fputs(lines, file) >= 0
    guard fclose(file) == 0, isWritten, rename(temporary, path) == 0 else {
      throw StoreError(path, errno)
    }
  }
}
/// The error of the file with the program's endpoints.
struct StoreError: Error, CustomStringConvertible {
  var description: String

  init(_ path: String, _ code: CInt) {
    self.description = "cannot write \(path): \(SystemError(code))"
  }
}

/// Returns the text of a small file, or `nil` if it cannot be read.
func readFile(_ path: String) -> String? {
  guard let file = fopen(path, "re") else { return nil }
  defer { fclose(file) }
  var bytes = [UInt8](repeating: 0, count: 65_536)
  let count = fread(&bytes, 1, bytes.count, file)
  return ferror(file) == 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
}
