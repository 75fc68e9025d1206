import Connectivity
import Glibc
import TestKit
import Testing

@testable import ConnectivityMonitor

/// The options by which an outage ends soon after the path is back.
@Suite("Outage options")
struct OutageOptionsTests {
  private static let (keepalive, userTimeout, maxWait): (CInt, CInt, CInt) = (9, 18, 44)

  /// A socket with these options. Records the ones that are set.
  private final class Socket: SocketOptions {
    var options: [CInt: CInt]
    var refused: Set<CInt> = []
    private(set) var changes: [[CInt]] = []

    init(_ options: [CInt: CInt]) {
      // The defaults of a kernel since 6.15.
      self.options = [keepalive: 0, userTimeout: 0, maxWait: 120_000]
        .merging(options) { $1 }
    }

    func option<Value: BitwiseCopyable & Sendable>(
      _ level: CInt, _ name: CInt, _ empty: Value
    ) -> Value? { self.options[name] as? Value }

    func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool {
      self.changes.append([name, value])
      guard !self.refused.contains(name), self.options[name] != nil else { return false }
      self.options[name] = value
      return true
    }
  }

  private static func event(_ status: KernelPath.Status) -> FlowEvent {
    var path = KernelPath.unknown
    path.status = status
    return .path(path)
  }

  private static func advice(_ reason: Invalidation.Reason) -> FlowEvent {
    .invalidation(
      InvalidationError(
        reason: reason, severity: .advise, cause: ChangeCause(.link, "carrierLost"), path: nil))
  }

  @Test(
    "C11 the path is satisfied → first the timeout, then the limit; the path is lost → restored")
  func order() {
    let socket = Socket([:])
    var options = OutageOptions(isEnabled: true)
    options.note(Self.event(.satisfied), on: socket)
    options.note(Self.event(.satisfied), on: socket)
    options.note(Self.advice(.silent), on: socket)
    #expect(socket.changes == [[18, 924_600], [44, 2000]])
    for loss in [Self.event(.unsatisfied), Self.advice(.interfaceLost)] {
      options.note(Self.event(.satisfied), on: socket)
      options.note(loss, on: socket)
      #expect(socket.options == [9: 0, 18: 0, 44: 120_000])
    }
  }

  @Test("C11 the limit cannot be set → the timeout is taken back")
  func refused() {
    let socket = Socket([:])
    socket.refused = [Self.maxWait]
    var options = OutageOptions(isEnabled: true)
    options.note(Self.event(.satisfied), on: socket)
    #expect(socket.changes == [[18, 924_600], [44, 2000], [18, 0]])
  }

  @Test(
    "C11 a timeout, keepalive or limit of the program, or an older kernel → nothing is set",
    arguments: [[18: 20_000], [9: 1], [44: 1000], [:]] as [[CInt: CInt]])
  func unset(own: [CInt: CInt]) {
    let socket = Socket(own)
    if own.isEmpty { socket.options[Self.maxWait] = nil }
    var options = OutageOptions(isEnabled: true)
    options.note(Self.event(.satisfied), on: socket)
    options.restore(on: socket)
    #expect(socket.changes.isEmpty)
  }

  @Test("C11 switched off → nothing is set")
  func disabled() {
    let socket = Socket([:])
    var options = OutageOptions(isEnabled: false)
    options.note(Self.event(.satisfied), on: socket)
    #expect(socket.changes.isEmpty)
  }

  @Test("C11 the program sets a timeout and a limit of its own later → they stay")
  func changed() {
    let socket = Socket([:])
    var options = OutageOptions(isEnabled: true)
    options.note(Self.event(.satisfied), on: socket)
    (socket.options[Self.userTimeout], socket.options[Self.maxWait]) = (5000, 30_000)
    options.restore(on: socket)
    #expect(socket.options == [9: 0, 18: 5000, 44: 30_000])
  }

  @Test("C11 E4 a probe raises the timeout, and sets it back unless the path was lost meanwhile")
  func probe() throws {
    let socket = Socket([4: 7200, 5: 75, 6: 9, 11: 0])
    var options = OutageOptions(isEnabled: true)
    options.note(Self.event(.satisfied), on: socket)
    for isLost in [false, true] {
      let probe = try #require(KeepaliveProbe(on: socket))
      #expect(socket.options[Self.userTimeout] == .max)
      if isLost { options.restore(on: socket) }
      probe.end(on: socket)
      #expect(socket.options[Self.userTimeout] == (isLost ? 0 : 924_600))
    }
  }
}
