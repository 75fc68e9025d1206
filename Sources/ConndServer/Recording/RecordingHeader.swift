import Connectivity
import ConnectivityProtocol
import Glibc
import SwiftProtobuf

/// What a recording begins with: what it was made by, and what connd knew before it read anything.
struct RecordingHeader: Hashable {
  /// The line at the start of the file, which names the format.
  static let line = Array("connd recording 1\n".utf8)

  /// Of connd.
  var version: String
  /// Of the kernel, as uname(2) has it.
  var kernel: String
  /// The text of the configuration; empty where there was none.
  var configuration: String
  /// How often connd has to tell systemd that it is alive, in nanoseconds: it reads the clock for that.
  var watchdogTimeout: Int64?
  /// What an earlier run published last, after which generations go on.
  var restored: Snapshot
  /// What users had said of links and networks.
  var costs: ChoiceFile.Contents

  /// A choice that ends with the machine's run does not end in a replay.
  private static let boot = "recorded"
  private static let largestGeneration: UInt64 = 1 << 53

  var encoded: [UInt8] {
    var fields = FieldWriter()
    fields.put(self.version)
    fields.put(self.kernel)
    fields.put(self.configuration)
    fields.put(self.watchdogTimeout) { $0.put($1) }
    let snapshot: [UInt8]? =
      try? Connectivity_V1_WatchResponse.snapshot(self.restored).serializedBytes()
    fields.put(snapshot ?? [])
    fields.put(ChoiceFile.text(self.costs, boot: Self.boot))
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
    guard let costs = try? ChoiceFile.read(Array(costs.utf8), boot: Self.boot),
      fields.isAtEnd, self.watchdogTimeout ?? 1 > 0,
      let message = try? Connectivity_V1_WatchResponse(serializedBytes: snapshot),
      case .snapshot(let restored)? = try? WatchEvent(message),
      restored.generation < Self.largestGeneration
    else { throw FieldReader.Fault() }
    self.restored = restored
    self.costs = costs
  }

  /// Of a recording that begins now.
  init(
    configuration: String, watchdogTimeout: Duration?, restored: Snapshot,
    costs: ChoiceFile.Contents = ChoiceFile.Contents()
  ) {
    self.costs = costs
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
  /// In whole nanoseconds; what has no room is the greatest there is.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = self.components
    let (whole, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, overflowsToo) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return overflows || overflowsToo ? (seconds < 0 ? .min : .max) : sum
  }
}
