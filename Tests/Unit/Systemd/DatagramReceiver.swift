import Glibc

/// A Unix datagram socket in place of systemd's.
final class DatagramReceiver: Sendable {
  /// The value of `NOTIFY_SOCKET`.
  let name: String
  private let descriptor: Int32
  private let path: String?

  enum Namespace: CaseIterable {
    case abstract, path
  }

  init(_ namespace: Namespace) throws {
    let unique = "connd-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    let path = namespace == .path ? "/tmp/\(unique)" : nil
    self.path = path
    self.name = path ?? "@\(unique)"
    self.descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)

    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = path.map { Array($0.utf8) } ?? [0] + Array(unique.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let size = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(self.descriptor, $0, size) }
    }
    guard result == 0 else { throw Failure(errno: errno) }
  }

  struct Failure: Error {
    let errno: Int32
  }

  deinit {
    close(self.descriptor)
    if let path = self.path { unlink(path) }
  }

  /// The next datagram, or `nil` if none has come: a sent one is available immediately.
  func next() -> String? {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = recv(self.descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
    return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
  }
}
