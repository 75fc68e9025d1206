import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Connections that are not guarded")
struct GuardObstacleTests {
  /// A socket with these options, each given by its level and name.
  private struct Socket: SocketOptions {
    func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool { false }

    /// For `protocol` its value; for others, whether the option exists.
    var `protocol`: CInt
    var options: [[CInt]] = []
    /// The flags of a connection that fell back to TCP.
    var flags: UInt8 = 0

    func option<Value: BitwiseCopyable & Sendable>(
      _ level: CInt, _ name: CInt, _ empty: Value
    ) -> Value? {
      if [level, name] == [1, 38] { return self.protocol as? Value }
      guard self.options.contains([level, name]) else { return nil }
      var value = empty
      // The flags follow eight one-byte numbers.
      if level == 284 { withUnsafeMutableBytes(of: &value) { $0[8] = self.flags } }
      return value
    }
  }

  private static let information: [CInt] = [284, 1]  // SOL_MPTCP, MPTCP_INFO
  private static let segmentSize: [CInt] = [6, 2]  // SOL_TCP, TCP_MAXSEG

  @Test("C10 Multipath TCP is distinguished from a fallback to TCP, on any kernel")
  func multipath() {
    let (information, segmentSize) = (Self.information, Self.segmentSize)
    #expect(Socket(protocol: 262, options: [information]).isMultipath)
    // Since Linux 6.17.
    #expect(Socket(protocol: 262, options: [information, segmentSize]).isMultipath)
    // Before 5.16.
    #expect(Socket(protocol: 262).isMultipath)
    #expect(!Socket(protocol: 262, options: [segmentSize]).isMultipath)
    #expect(!Socket(protocol: 262, options: [information], flags: 1).isMultipath)
    #expect(!Socket(protocol: 6, options: [segmentSize]).isMultipath)
  }
}
