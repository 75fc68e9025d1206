import Connectivity
import Glibc
import LinuxSupport

/// The header of a recording: the versions that made it, and connd's state before it read anything.
struct RecordingHeader: Hashable {
  /// The line at the start of the file with the format's name.
  static let line = Array("connd recording 2\n".utf8)

  var version: String
  /// The version of the kernel, as in uname(2).
  var kernel: String
  /// The text of the configuration, or empty without one.
  var configuration: String
  /// The watchdog timeout in nanoseconds, recorded because connd reads the clock for the watchdog.
  var watchdogTimeout: Int64?
  /// The snapshot that an earlier run published last. Generations continue after it.
  var restored: ConnectivitySnapshot
  /// The users' cost overrides.
  var costs: OverrideFile.Contents
  /// The history of earlier runs, oldest first.
  var past: [ConnectivityChange] = []

  /// A fixed boot ID, so that an override until reboot does not end in a replay.
  private static let boot = "recorded"
  private static let maxGeneration: UInt64 = 1 << 53

  var encoded: [UInt8] {
    Connd_Recording_V2_Header.with {
      ($0.version, $0.kernel, $0.configuration) = (self.version, self.kernel, self.configuration)
      if let timeout = self.watchdogTimeout { $0.watchdogTimeout = timeout }
      $0.restored = self.restored.stored
      $0.overrides = OverrideFile.text(self.costs, boot: Self.boot)
      $0.past = self.past.map { Published($0).message }
    }.serializedBytes()
  }

  /// - Returns: `nil` if the bytes are invalid.
  init?(decoding bytes: [UInt8]) {
    guard let message = try? Connd_Recording_V2_Header(serializedBytes: bytes),
      let costs = try? OverrideFile.read(Array(message.overrides.utf8), boot: Self.boot),
      !message.hasWatchdogTimeout || message.watchdogTimeout > 0,
      let restored = try? ConnectivitySnapshot(stored: message.restored),
      restored.generation < Self.maxGeneration
    else { return nil }
    (self.version, self.kernel, self.configuration) =
      (message.version, message.kernel, message.configuration)
    self.watchdogTimeout = message.hasWatchdogTimeout ? message.watchdogTimeout : nil
    (self.restored, self.costs) = (restored, costs)
    self.past = message.past.compactMap { (try? Published(decoding: $0))?.change }
  }

  /// Creates the header of a recording that begins now.
  init(
    configuration: String, watchdogTimeout: Duration?, restored: ConnectivitySnapshot,
    costs: OverrideFile.Contents = OverrideFile.Contents(), past: [ConnectivityChange] = []
  ) {
    (self.costs, self.past) = (costs, past)
    self.version = Version.built
    self.kernel = Self.kernelRelease
    self.configuration = configuration
    self.watchdogTimeout = watchdogTimeout?.nanoseconds
    self.restored = restored
  }

  private static var kernelRelease: String {
    var names = utsname()
    guard uname(&names) == 0 else { return "" }
    return withUnsafeBytes(of: names.release) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}

extension Duration {
  /// The duration in whole nanoseconds, clamped to the range of `Int64`.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = self.components
    let (whole, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, overflowsToo) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return overflows || overflowsToo ? (seconds < 0 ? .min : .max) : sum
  }
}
