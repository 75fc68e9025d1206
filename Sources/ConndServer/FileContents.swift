import Glibc
import UnixTransport

/// What a file holds.
///
/// Does not wait for the writer of a pipe that stands where the file is expected.
///
/// - Parameters:
///   - most: In octets.
///   - followsLinks: Not where others may write to the directory.
/// - Throws: `EFBIG` where it holds more.
func contents(
  of path: String, most: Int, followsLinks: Bool = true
) throws(SystemError) -> [UInt8] {
  let descriptor = open(
    path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW))
  guard descriptor >= 0 else { throw SystemError() }
  defer { close(descriptor) }
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: min(most + 1, 1 << 16))
  while bytes.count <= most {
    let count = read(descriptor, &buffer, buffer.count)
    if count < 0, errno == EINTR { continue }
    if count < 0 { throw SystemError() }
    if count == 0 { return bytes }
    bytes += buffer[..<count]
  }
  throw SystemError(EFBIG)
}
