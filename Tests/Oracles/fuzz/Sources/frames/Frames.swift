import CLinux
import Expectation
import Glibc

/// Starts connd in its own network namespace.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
) -> CInt {
  expect(clinux_unshare_network_namespace() == 0, "no namespace of its own: root has one")
  Daemon.start()
  return 0
}

/// Called by libFuzzer with a client's manner and bytes. Whatever it sends, its connection ends
/// once it stops, it receives valid frames, and another client is served.
@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafeRawPointer, _ size: Int) -> CInt {
  guard size > 0 else { return 0 }
  let input = UnsafeRawBufferPointer(start: bytes, count: size)
  var hostile = Client(Daemon.path, Manner(input[0]))
  hostile.send(Array(input.dropFirst()))
  if !hostile.manner.stays { hostile.leave() }
  // Its calls continue in the meantime.
  var honest = Client(Daemon.path, Manner(0x8f))
  honest.send(Daemon.honestRequest)
  honest.read(until: hasStatus)
  expect(isAnswered(honest.end()), "nobody else is answered")
  if hostile.manner.stays { checkFrames(hostile.end()) }
  return 0
}

/// connd's output consists of frames that RFC 9113, 4.1 defines, the first of them SETTINGS; the
/// last may be cut off.
private func checkFrames(_ output: [UInt8]) {
  for (place, frame) in heads(output).enumerated() {
    expect(frame.length <= 16 << 10, "\(frame)")
    expect(frame.type <= 9, "\(frame)")
    if place == 0 { expect(frame.type == 4, "the first frame: \(frame)") }
  }
}

/// Whether a call got a message, and then a status.
private func isAnswered(_ output: [UInt8]) -> Bool {
  heads(output).contains { $0.type == 0 && $0.length > 5 } && hasStatus(output)
}

/// Whether a call has ended with a status: its trailers, which end the stream.
private func hasStatus(_ output: [UInt8]) -> Bool {
  heads(output).contains { $0.type == 1 && $0.flags & 1 == 1 }
}

private func heads(_ output: [UInt8]) -> [(length: Int, type: UInt8, flags: UInt8)] {
  var heads: [(length: Int, type: UInt8, flags: UInt8)] = []
  var place = 0
  while place + 9 <= output.count {
    let length = output[place..<place + 3].reduce(0) { $0 << 8 | Int($1) }
    heads.append((length, output[place + 3], output[place + 4]))
    place += 9 + length
  }
  return heads
}
