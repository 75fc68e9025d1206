#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Returns the contents of a file.
///
/// Does not block if the path is a pipe.
///
/// - Parameters:
///   - max: The maximum size in bytes.
///   - followsLinks: Whether to follow a symbolic link. Pass `false` if other users may write to
///     the directory.
/// - Throws: `EFBIG` if the file is larger.
package func contents(
  of path: String, max: Int, followsLinks: Bool = true
) throws(SystemError) -> [UInt8] {
  let descriptor = open(
    path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW))
  guard descriptor >= 0 else { throw SystemError() }
  defer { close(descriptor) }
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: min(max + 1, 1 << 16))
  while bytes.count <= max {
    let count = read(descriptor, &buffer, buffer.count)
    if count < 0, errno == EINTR { continue }
    if count < 0 { throw SystemError() }
    if count == 0 { return bytes }
    bytes += buffer[..<count]
  }
  throw SystemError(EFBIG)
}

/// Opens an empty file for writing that only this user can read.
///
/// Creates the file, or takes an empty one that this user has created, as `connctl report` does.
/// Another user may have put a symbolic link or a file in the directory. Neither is written to.
///
/// - Throws: `EEXIST` if there is anything else with that name.
package func newFile(_ path: String) throws(SystemError) -> CInt {
  let flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
  let made = open(path, flags | O_CREAT | O_EXCL, 0o600)
  if made >= 0 { return made }
  guard errno == EEXIST else { throw SystemError() }
  let descriptor = open(path, flags)
  guard descriptor >= 0 else { throw SystemError(EEXIST) }
  var status = stat()
  guard fstat(descriptor, &status) == 0, status.st_mode & ~0o700 == S_IFREG, status.st_size == 0,
    status.st_uid == geteuid(), status.st_nlink == 1
  else {
    close(descriptor)
    throw SystemError(EEXIST)
  }
  return descriptor
}
