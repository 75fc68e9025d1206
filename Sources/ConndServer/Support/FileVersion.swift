import Glibc

/// The attributes that show whether a file has changed since it was read.
struct FileVersion: Equatable {
  private var inode: ino_t
  private var size: off_t
  private var modified: Int
  private var changed: Int

  /// `nil` if the file does not exist.
  init?(of path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    func nanoseconds(_ time: timespec) -> Int { time.tv_sec * 1_000_000_000 + time.tv_nsec }
    (self.inode, self.size) = (status.st_ino, status.st_size)
    self.modified = nanoseconds(status.st_mtim)
    self.changed = nanoseconds(status.st_ctim)
  }
}
