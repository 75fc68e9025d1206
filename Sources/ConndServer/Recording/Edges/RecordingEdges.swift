import Connectivity
import Glibc
import LinuxSupport
import Netlink

// Wrappers around the interfaces of the monitor thread that record each answer.

/// A netlink socket that records its traffic.
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
      self.recorder.noteBinding(of: self.role, error: error.code)
      throw error
    }
    self.recorder.noteBinding(of: self.role, port: self.socket.port)
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
      .option(
        .with {
          $0.socket = RecordedRole(self.role)
          $0.isSocketLevel = isSocketLevel
          ($0.option, $0.error) = (option, code)
        }))
    errno = code
    return isSet
  }

  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    do throws(NetlinkError) {
      try self.socket.send(messages, operation: operation)
    } catch {
      self.noteSending(messages, error: error.code)
      throw error
    }
    self.noteSending(messages, error: 0)
  }

  private func noteSending(_ messages: UnsafeRawBufferPointer, error: CInt) {
    self.recorder.note(
      .sent(
        .with {
          $0.socket = RecordedRole(self.role)
          $0.error = error
          $0.datagram = Array(messages)
        }))
  }

  func receive(flags: CInt) -> Reception {
    let reception = self.socket.receive(flags: flags)
    self.recorder.note(.received(RecordedReception(reception).message(on: self.role)))
    return reception
  }

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    self.socket.receiveSmall { datagram in
      self.recorder.note(
        .received(RecordedReception.datagram(Array(datagram)).message(on: self.role)))
      return take(datagram)
    }
  }
}

/// Netlink sockets that record their traffic.
struct RecordedSockets: SocketSource {
  let sockets: any SocketSource
  let recorder: Recorder

  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    let socket: any DatagramSocket
    do throws(NetlinkError) {
      socket = try self.sockets.open(role)
    } catch {
      self.noteOpening(of: role, error)
      throw error
    }
    self.noteOpening(of: role, nil)
    // An adopted socket is already bound.
    if socket.port != 0 { self.recorder.noteBinding(of: role, port: socket.port) }
    return RecordedSocket(socket, role, self.recorder)
  }

  private func noteOpening(of role: SocketRole, _ error: NetlinkError?) {
    self.recorder.note(
      .opened(
        .with {
          $0.socket = RecordedRole(role)
          ($0.error, $0.operation) = (error?.code ?? 0, error?.operation ?? "")
        }))
  }

  func isReadable(_ fileDescriptor: CInt) -> Bool {
    let isReadable = self.sockets.isReadable(fileDescriptor)
    self.recorder.note(.readable(isReadable))
    return isReadable
  }
}

/// A reader that records the contents of files.
struct RecordedFiles: FileReader {
  let files: any FileReader
  let recorder: Recorder

  func answer(_ question: FileQuestion) -> FileAnswer {
    let answer = self.files.answer(question)
    self.recorder.note(.file(.init(question, answer)))
    return answer
  }
}

/// A clock that records its readings.
struct RecordedClock: MonitorClock {
  let clock: any MonitorClock
  let recorder: Recorder

  var worked: Duration {
    let worked = self.clock.worked
    self.recorder.note(.worked(worked.nanoseconds))
    return worked
  }

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
        .with {
          $0.hasMessages = woken.hasMessages
          $0.sources = UInt32(woken.sources.rawValue)
          if let slept = woken.slept { $0.slept = slept.nanoseconds }
        }))
  }

  fileprivate func noteBinding(of role: SocketRole, error: CInt = 0, port: UInt32 = 0) {
    self.note(
      .bound(
        .with {
          $0.socket = RecordedRole(role)
          ($0.error, $0.port) = (error, port)
        }))
  }
}
