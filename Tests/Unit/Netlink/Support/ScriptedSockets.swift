import CLinux
import Glibc

@testable import Netlink

/// Generic netlink sockets with a kernel that a test writes.
final class ScriptedSockets: SocketSource {
  /// Datagrams that wait to be received.
  var notifications: [[UInt8]] = []
  /// The messages that answer a command of a family, each in its own datagram.
  var answer: (_ family: UInt16, _ command: UInt8) -> [[UInt8]] = { _, _ in [] }
  /// The groups that cannot be joined, with the error.
  var refused: [UInt32: CInt] = [:]
  /// The joined groups, in order.
  fileprivate(set) var joined: [UInt32] = []
  /// The queries, in order: `32 5` is command 5 of family 32.
  fileprivate(set) var asked: [String] = []

  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    ScriptedSocket(role, self)
  }

  func isReadable(_ fileDescriptor: CInt) -> Bool { !self.notifications.isEmpty }
}

private final class ScriptedSocket: DatagramSocket {
  private let role: SocketRole
  private let sockets: ScriptedSockets
  private var answers: [[UInt8]] = []
  private var datagram = UnsafeMutableRawBufferPointer(start: nil, count: 0)
  private(set) var port: UInt32 = 0

  let fileDescriptor: CInt = -1

  init(_ role: SocketRole, _ sockets: ScriptedSockets) {
    self.role = role
    self.sockets = sockets
  }

  deinit { self.datagram.deallocate() }

  func bind() throws(NetlinkError) { self.port = 4711 }

  func set(_ option: CInt, _ value: CInt) -> Bool {
    guard option == NETLINK_ADD_MEMBERSHIP else { return true }
    let group = UInt32(bitPattern: value)
    if let code = self.sockets.refused[group] {
      errno = code
      return false
    }
    self.sockets.joined.append(group)
    return true
  }

  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool { true }

  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    let family = messages.loadUnaligned(fromByteOffset: 4, as: UInt16.self)
    let command = messages[16]
    self.sockets.asked.append("\(family) \(command)")
    self.answers = self.sockets.answer(family, command).map { answer in
      let sequence = Array(messages[8..<12])
      return Array(answer[..<8]) + sequence + raw(self.port) + Array(answer[16...])
    }
  }

  func receive(flags: CInt) -> Reception {
    switch self.role {
    case .wirelessListener, .listener: self.take(&self.sockets.notifications)
    case .wirelessRequester, .requester, .socketDiagnosis, .linkDump: self.take(&self.answers)
    }
  }

  private func take(_ datagrams: inout [[UInt8]]) -> Reception {
    guard !datagrams.isEmpty else { return .nothing }
    let bytes = datagrams.removeFirst()
    self.datagram.deallocate()
    self.datagram = .allocate(byteCount: bytes.count, alignment: 8)
    self.datagram.copyBytes(from: bytes)
    return .datagram(UnsafeRawBufferPointer(self.datagram))
  }

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool { false }
}
