import Connectivity
import Glibc

/// The header of a recording: the versions that made it, and connd's state before it read anything.
struct RecordingHeader: Hashable {
  /// The line at the start of the file with the format's name.
  static let line = Array("connd recording 1\n".utf8)

  var version: String
  /// The version of the kernel, as in uname(2).
  var kernel: String
  /// The text of the configuration, or empty without one.
  var configuration: String
  /// The watchdog timeout in nanoseconds, because connd reads the clock for the watchdog.
  var watchdogTimeout: Int64?
  /// The snapshot that an earlier run published last. Generations continue after it.
  var restored: ConnectivitySnapshot
  /// The users' cost overrides.
  var costs: OverrideFile.Contents
  /// The history of earlier runs, oldest first. Older recordings lack it.
  var past: [ConnectivityChange] = []

  /// A fixed ID, so that an override until reboot does not end in a replay.
  private static let boot = "recorded"
  private static let largestGeneration: UInt64 = 1 << 53

  var encoded: [UInt8] {
    var fields = FieldWriter()
    fields.put(self.version)
    fields.put(self.kernel)
    fields.put(self.configuration)
    fields.put(self.watchdogTimeout) { $0.put($1) }
    fields.put(self.restored.stored)
    fields.put(OverrideFile.text(self.costs, boot: Self.boot))
    fields.put(self.past.map { Published($0) }) { $0.put($1.message) }
    return fields.bytes
  }
}

extension RecordingHeader {
  init(decoding bytes: [UInt8]) throws(FieldReader.Fault) {
    var fields = FieldReader(bytes)
    self.version = try fields.text()
    self.kernel = try fields.text()
    self.configuration = try fields.text()
    self.watchdogTimeout = try fields.optional { (fields) throws(FieldReader.Fault) in
      try fields.number()
    }
    let snapshot = try fields.bytes()
    let costs = try fields.text()
    let past =
      fields.isAtEnd
      ? []
      : try fields.list { (fields) throws(FieldReader.Fault) in
        try fields.bytes()
      }
    guard let costs = try? OverrideFile.read(Array(costs.utf8), boot: Self.boot),
      fields.isAtEnd, self.watchdogTimeout ?? 1 > 0,
      let restored = try? ConnectivitySnapshot(stored: snapshot),
      restored.generation < Self.largestGeneration
    else { throw FieldReader.Fault() }
    self.restored = restored
    self.costs = costs
    self.past = past.compactMap { (try? Published(decoding: $0))?.change }
  }

  /// Creates the header of a recording that begins now.
  init(
    configuration: String, watchdogTimeout: Duration?, restored: ConnectivitySnapshot,
    costs: OverrideFile.Contents = OverrideFile.Contents(), past: [ConnectivityChange] = []
  ) {
    (self.costs, self.past) = (costs, past)
    self.version = Version.string
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
  /// In whole nanoseconds, clamped to the range of the type.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = self.components
    let (whole, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, overflowsToo) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return overflows || overflowsToo ? (seconds < 0 ? .min : .max) : sum
  }
}
