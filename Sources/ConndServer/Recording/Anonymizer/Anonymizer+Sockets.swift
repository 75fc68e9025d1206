import CLinux
import Connectivity
import Glibc

// Queries about TCP sockets and their answers (sock_diag(7)).
extension Anonymizer {
  /// Replaces both addresses of a request or an answer, and keeps the numbers of `tcp_info`.
  ///
  /// - Parameter isRequest: Whether it is a request. An answer has another header.
  func socketMessage(_ payload: ArraySlice<UInt8>, isRequest: Bool) -> [UInt8] {
    let size =
      isRequest ? MemoryLayout<inet_diag_req_v2>.size : MemoryLayout<inet_diag_msg>.size
    guard payload.count >= size else { return [] }
    var header = Array(payload.prefix(size))
    // `inet_diag_sockid`: two ports, then two addresses of sixteen bytes each.
    let source = (isRequest ? 8 : 4) + 4
    let length = header[0] == UInt8(AF_INET) ? 4 : 16
    for start in [source, source + 16] {
      guard let address = IPAddress(bytes: header[start..<start + length]) else { return [] }
      header.replaceSubrange(start..<start + length, with: self.address(address).bytes)
      // An IPv4 address fills a quarter of the field.
      header.replaceSubrange(
        start + length..<start + 16, with: [UInt8](repeating: 0, count: 16 - length))
    }
    guard !isRequest else { return header }
    // Clears the socket's inode.
    header.replaceSubrange(size - 4..<size, with: [UInt8](repeating: 0, count: 4))
    return header
      + self.attributes(
        payload.dropFirst(size),
        [
          Int(INET_DIAG_INFO): .numbers(atMost: 512),
          Int(INET_DIAG_SKMEMINFO): .numbers(atMost: 64),
        ])
  }
}
