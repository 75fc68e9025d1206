import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Expectation
import Glibc
import Logging

@testable import ConndServer

/// Called by libFuzzer with new bytes: the first one selects the format of the others.
@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafeRawPointer, _ size: Int) -> CInt {
  let input = UnsafeRawBufferPointer(start: bytes, count: size)
  guard let kind = input.first else { return 0 }
  let rest = Array(input.dropFirst())
  switch kind % 4 {
  case 0: readGuardRequest(rest)
  case 1: readEvent(rest)
  case 2: readHistory(rest)
  default: readHistory(recorded(rest))
  }
  return 0
}

/// A request is a flow that can be guarded, or a refusal that names the field.
private func readGuardRequest(_ bytes: [UInt8]) {
  guard let request = try? Connectivity_V1_GuardRequest(serializedBytes: bytes) else { return }
  do throws(FlowRefusal) {
    let registration = try FlowTable.Registration(request.add, of: 1000, in: 1)
    let flow = registration.flow
    expect(flow.local.map { $0.family == flow.destination.address.family } ?? true, "\(flow)")
    expect(!flow.destination.address.isUnspecified, "\(flow)")
    expect(registration.knownPath?.evidence == nil)
    // It is stored as long as the flow.
    expect((registration.knownPath?.chain.count ?? 0) <= PathReader.maxDepth)
  } catch {
    expect(error.message.contains("add."), error.message)
  }
}

/// A stream message keeps its meaning when it is written again.
private func readEvent(_ bytes: [UInt8]) {
  guard let message = try? Connectivity_V1_WatchResponse(serializedBytes: bytes),
    case .change(let change) = try? WatchEvent(message)
  else { return }
  do {
    let again = try Connectivity_V1_WatchResponse(
      serializedBytes: Connectivity_V1_WatchResponse(change).serializedBytes())
    expect(try WatchEvent(again) == .change(change), "\(change)")
  } catch {
    expect(false, "\(change): \(error)")
  }
}

private let logger = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
private let directory = getenv("FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp"
private let path = "\(directory)/connd-\(getpid()).history"

/// A history of these messages, each after its length, in valid records: their contents are fuzzed.
private func recorded(_ bytes: [UInt8]) -> [UInt8] {
  func number(_ number: UInt32) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian) { Array($0) }
  }
  var history = Array("connd history 4 =0000000000000000\n".utf8)
  var rest = bytes[...]
  while let length = rest.popFirst() {
    let message = Array(rest.prefix(Int(length)))
    rest = rest.dropFirst(message.count)
    // FNV-1a, as in HistoryFile.
    let checksum = message.reduce(2_166_136_261 as UInt32) { ($0 ^ UInt32($1)) &* 16_777_619 }
    let count = UInt32(message.count)
    history += number(count) + number(~count) + number(checksum) + message
  }
  return history
}

/// A history has its file's changes in order, or says that some were lost. It is the same at the
/// next start.
private func readHistory(_ bytes: [UInt8]) {
  let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
  expect(file >= 0 && write(file, bytes, bytes.count) == bytes.count)
  close(file)
  defer { for name in ["", ".new", ".damaged"] { unlink(path + name) } }
  let past = HistoryFile(path: path, logger: logger).begin()
  let generations = past.changes.map(\.change.generation)
  expect(zip(generations, generations.dropFirst()).allSatisfy { $0 < $1 }, "\(generations)")
  let again = HistoryFile(path: path, logger: logger).begin()
  expect(again.changes.map(\.message) == past.changes.map(\.message))
  // A loss is also known at the next start.
  expect((past.generation > 0) == (again.generation > 0) || !past.changes.isEmpty)
}
