import Connectivity
import Glibc
import LinuxSupport
import Netlink

// Wrappers around the interfaces of the monitor thread that record each answer.

/// A netlink socket whose traffic is recorded.
final class RecordedSocket: DatagramSocket {
  private let socket: any DatagramSocket
  private let role: SocketRole
  private let recorder: Recorder

  init(_ socket: any DatagramSocket, _ role: SocketRole, _ recorder: Recorder) {
    self.socket = socket
    self.role = role
    self.recorder = recorder
  }

  var fileDescriptor: CInt { self.socket.fileDescriptor }

  var port: UInt32 { self.socket.port }

  func bind() throws(NetlinkError) {
    do throws(NetlinkError) {
      try self.socket.bind()
    } catch {
      self.recorder.note(.bound(self.role, error: error.code, port: 0))
      throw error
    }
    self.recorder.note(.bound(self.role, error: 0, port: self.socket.port))
  }

  func set(_ option: CInt, _ value: CInt) -> Bool {
    self.noting(option, isSocketLevel: false, self.socket.set(option, value))
  }

  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool {
    self.noting(option, isSocketLevel: true, self.socket.setSocket(option, value))
  }

  private func noting(_ option: CInt, isSocketLevel: Bool, _ isSet: Bool) -> Bool {
    let code = isSet ? 0 : errno
    self.recorder.note(
      .option(self.role, isSocketLevel: isSocketLevel, option: option, error: code))
    errno = code
    return isSet
  }

  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    do throws(NetlinkError) {
      try self.socket.send(messages, operation: operation)
    } catch {
      self.recorder.note(.sent(self.role, error: error.code, Array(messages)))
      throw error
    }
    self.recorder.note(.sent(self.role, error: 0, Array(messages)))
  }

  func receive(flags: CInt) -> Reception {
    let reception = self.socket.receive(flags: flags)
    self.recorder.note(.received(self.role, RecordedReception(reception)))
    return reception
  }

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    self.socket.receiveSmall { datagram in
      self.recorder.note(.received(self.role, .datagram(Array(datagram))))
      return take(datagram)
    }
  }
}

/// Netlink sockets whose traffic is recorded.
struct RecordedSockets: SocketSource {
  let sockets: any SocketSource
  let recorder: Recorder

  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    let socket: any DatagramSocket
    do throws(NetlinkError) {
      socket = try self.sockets.open(role)
    } catch {
      self.recorder.note(.opened(role, error: error.code, operation: error.operation))
      throw error
    }
    self.recorder.note(.opened(role, error: 0, operation: ""))
    // An adopted socket is already bound.
    if socket.port != 0 { self.recorder.note(.bound(role, error: 0, port: socket.port)) }
    return RecordedSocket(socket, role, self.recorder)
  }

  func isReadable(_ fileDescriptor: CInt) -> Bool {
    let isReadable = self.sockets.isReadable(fileDescriptor)
    self.recorder.note(.readable(isReadable))
    return isReadable
  }
}

/// Files whose contents are recorded.
struct RecordedFiles: FileReader {
  let files: any FileReader
  let recorder: Recorder

  func answer(_ question: FileQuestion) -> FileAnswer {
    let answer = self.files.answer(question)
    switch answer {
    case .success(let bytes): self.recorder.note(.file(question, error: 0, bytes))
    case .failure(let error): self.recorder.note(.file(question, error: error.code, []))
    }
    return answer
  }
}

/// A clock whose readings are recorded, except the processor time.
struct RecordedClock: MonitorClock {
  let clock: any MonitorClock
  let recorder: Recorder

  var worked: Duration { self.clock.worked }

  var now: Instant {
    let now = self.clock.now
    self.recorder.note(.now(now.sinceStart.nanoseconds))
    return now
  }

  var time: WallTime {
    let time = self.clock.time
    self.recorder.note(.time(time.microseconds))
    return time
  }
}

extension Recorder {
  /// Records the end of a wait.
  func begin(_ woken: Waiter.Woken) {
    self.note(
      .turn(
        RecordedWake(
          hasMessages: woken.hasMessages, sources: woken.sources,
          slept: woken.slept?.nanoseconds)))
  }
}
