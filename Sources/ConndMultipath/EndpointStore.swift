import Connectivity
import Glibc
import LinuxSupport

/// The endpoints that this program made, in a file that survives its restarts. Without the file
/// they would count as another program's and never be deleted.
struct EndpointStore {
  /// The path of the file, or `nil` to keep the endpoints only in memory.
  let path: String?
  private(set) var places: Set<EndpointPlan.Place>

  /// Reads the file. A missing file counts as empty, and malformed lines are skipped.
  init(path: String?) {
    self.path = path
    self.places = path.map { Set(Self.read($0)) } ?? []
  }

  /// - Throws: An error if the file cannot be written.
  mutating func insert(_ place: EndpointPlan.Place) throws(StoreError) {
    self.places.insert(place)
    try self.write()
  }

  /// - Throws: An error if the file cannot be written.
  mutating func remove(_ place: EndpointPlan.Place) throws(StoreError) {
    guard self.places.remove(place) != nil else { return }
    try self.write()
  }

  private static func read(_ path: String) -> [EndpointPlan.Place] {
    readFile(path)?.split(separator: "\n").compactMap { line in
      let words = line.split(separator: " ")
      guard words.count == 2, let address = IPAddress(String(words[0])), let link = UInt32(words[1])
      else { return nil }
      return EndpointPlan.Place(address, link: link)
    } ?? []
  }

  /// Replaces the file in one step.
  private func write() throws(StoreError) {
    guard let path = self.path else { return }
    let lines = self.places.map { "\($0.address) \($0.link)\n" }.sorted().joined()
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

/// An error if the file with the program's endpoints cannot be written.
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
