import Connectivity
import Expectation
import Glibc

@testable import ConndServer

/// Called by libFuzzer with new bytes. They are the bus's messages after it has identified
/// ModemManager, or NetworkManager if the first byte is odd.
@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafeRawPointer, _ size: Int) -> CInt {
  SystemBus.shared.send(UnsafeRawBufferPointer(start: bytes, count: size))
  return 0
}

/// A system bus: it admits every client, answers the first calls, and then sends the given bytes.
private final class SystemBus {
  nonisolated(unsafe) static let shared = SystemBus()

  private let listener: CInt

  private init() {
    let directory = getenv("FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp"
    let path = "\(directory)/bus"
    unlink(path)
    setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=\(path)", 1)
    self.listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) {
      $0.copyBytes(from: path.utf8.prefix($0.count - 1))
    }
    let size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let isBound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(self.listener, $0, size) }
    }
    expect(isBound == 0 && listen(self.listener, 16) == 0, "\(path): errno \(errno)")
  }

  func send(_ bytes: UnsafeRawBufferPointer) {
    let rest = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
    if let kind = bytes.first, kind % 2 == 1 {
      let watch = NetworkManagerWatch()
      self.send(rest) {
        watch.process()
        for name in watch.reports.keys { expect(ResolvConf.isLinkName(name), name) }
        expect(watch.reports.count <= 256)
      }
    } else {
      let watch = ModemWatch()
      self.send(rest) {
        for case .modems(let links) in watch.process() {
          for (name, link) in links {
            expect(ResolvConf.isLinkName(name), name)
            expect(!link.isSuspended || link.isConnected, "\(link)")
          }
          expect(links.count <= 64)
        }
      }
    }
  }

  private func send(_ bytes: UnsafeRawBufferPointer, _ process: () -> Void) {
    let client = accept(self.listener, nil, nil)
    expect(client >= 0, "nobody has come: errno \(errno)")
    // The client's authentication is complete.
    process()
    var greeting = [UInt8](repeating: 0, count: 4096)
    let count = recv(client, &greeting, greeting.count, CInt(MSG_DONTWAIT))
    let asked = String(decoding: greeting.prefix(max(0, count)), as: UTF8.self)
    let admission =
      (asked.contains("DATA\r\n") ? "DATA\r\n" : "")
      + "OK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n"
    // Hello is the first call, and GetNameOwner comes after three matches.
    let start =
      Array(admission.utf8) + Self.reply(to: 1, ":1.1", number: 1)
      + Self.reply(to: 5, ":1.7", number: 2)
    _ = start.withUnsafeBytes { Glibc.send(client, $0.baseAddress, $0.count, 0) }
    _ = Glibc.send(client, bytes.baseAddress, bytes.count, 0)
    for _ in 0..<4 { process() }
    close(client)
    process()
  }

  /// The bus's own answer to a call, a string (D-Bus Specification, "Message Format").
  private static func reply(to call: UInt8, _ text: String, number: UInt8) -> [UInt8] {
    let body = [UInt8(text.utf8.count), 0, 0, 0] + Array(text.utf8) + [0]
    let sender = Array("org.freedesktop.DBus".utf8)
    // The call's number, the signature, the sender.
    let fields: [UInt8] =
      [5, 1, UInt8(ascii: "u"), 0, call, 0, 0, 0] + [
        8, 1, UInt8(ascii: "g"), 0, 1, UInt8(ascii: "s"), 0, 0,
      ]
      + [7, 1, UInt8(ascii: "s"), 0, UInt8(sender.count), 0, 0, 0] + sender + [0]
    let header = [UInt8(ascii: "l"), 2, 1, 1, UInt8(body.count), 0, 0, 0, number, 0, 0, 0]
    let padding = [UInt8](repeating: 0, count: -fields.count & 7)
    return header + [UInt8(fields.count), 0, 0, 0] + fields + padding + body
  }
}
