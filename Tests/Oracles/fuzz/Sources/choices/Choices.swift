import ConnectivityRules
import Expectation

@testable import ConndServer

/// Called by libFuzzer with new bytes.
@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafeRawPointer, _ size: Int) -> CInt {
  let bytes = Array(UnsafeRawBufferPointer(start: bytes, count: size))
  read(bytes)
  // Any writer of the file can compute the checksum, and in a valid file the lines count.
  read(sealed(bytes))
  read(sealed(Array("connd networks 1\nkey 000102030405060708090a0b0c0d0e0f\n".utf8) + bytes))
  return 0
}

private func sealed(_ body: [UInt8]) -> [UInt8] {
  body + Array("end \(OverrideFile.checksum(body[...]))\n".utf8)
}

private func afterReboot(_ override: CostOverride) -> CostOverride? {
  var override = override
  if override.constrained?.end == .boot { override.constrained = nil }
  if override.expensive?.end == .boot { override.expensive = nil }
  if override.assist?.end == .boot { override.assist = nil }
  return override.isEmpty ? nil : override
}

/// The bytes are foreign, or reading and writing them is stable.
private func read(_ bytes: [UInt8]) {
  guard let contents = try? OverrideFile.read(bytes, boot: "1f-2e") else { return }
  expect(contents.key.bytes.count == NetworkKey.length)
  let overrides = contents.overrides
  expect(overrides.all.values.allSatisfy { !$0.isEmpty })
  expect(overrides.hasEnds == (overrides.endWithNetworks || overrides.nextEnd != nil))
  let text = OverrideFile.text(contents, boot: "1f-2e")
  let written = Array(text.utf8)
  expect((try? OverrideFile.read(written, boot: "1f-2e")) == contents, text)
  // A reboot ends the settings until then, and no others.
  let later = (try? OverrideFile.read(written, boot: "3d-4c"))?.overrides.all
  expect(later == overrides.all.compactMapValues(afterReboot), text)
  var ending = overrides
  for subject in ending.end(at: .init(microseconds: .max), on: [NetworkHash(0)]) {
    // Other settings of the subject may go on.
    let ends = ending[subject]?.ends ?? []
    expect(ends.allSatisfy { if case .time = $0 { false } else { true } }, text)
  }
  expect(ending.nextEnd == nil)
}
