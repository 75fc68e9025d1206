import Connectivity
import Expectation

@testable import ConnctlCommands
@testable import ConndServer

/// Called by libFuzzer with new bytes.
@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafeRawPointer, _ size: Int) -> CInt {
  let text = String(decoding: UnsafeRawBufferPointer(start: bytes, count: size), as: UTF8.self)
  readConfiguration(text)
  readArgument(text)
  return 0
}

/// A text is a configuration whose values are in bounds, or an error with the line.
private func readConfiguration(_ text: String) {
  do throws(ConfigurationError) {
    let configuration = try Configuration.parse(text, file: "connd.yaml")
    expect(configuration.socket?.hasPrefix("/") ?? true)
    let grace =
      configuration.invalidations.carrierGrace.values + [
        configuration.invalidations.routeGrace
      ]
    expect(grace.allSatisfy { (.zero ... .seconds(86_400)).contains($0) }, "\(grace)")
    let probes = [configuration.destinations.ipv4, configuration.destinations.ipv6]
    expect(probes.allSatisfy { (1...16).contains($0.count) }, "\(probes)")
    let limits = configuration.limits
    let counts = [
      limits.connections, limits.connectionsPerUser, limits.streams, limits.streamsPerUser,
      limits.streamsPerConnection, limits.flows, limits.flowsPerUser, limits.flowsPerStream,
    ]
    expect(counts.allSatisfy { (1...1_000_000).contains($0) }, "\(limits)")
    expect((1024...1_048_576).contains(limits.messageSize), "\(limits)")
  } catch {
    // YAML has several line endings. A mark may be after the last line, if something is missing
    // there.
    let ends = text.unicodeScalars.count {
      "\n\r\u{85}\u{2028}\u{2029}".unicodeScalars.contains($0)
    }
    expect(!error.mistakes.isEmpty)
    for mistake in error.mistakes {
      expect(mistake.line.map { (1...ends + 2).contains($0) } ?? false, "\(mistake)")
      expect(!mistake.message.isEmpty)
    }
  }
}

/// Parses connctl's own argument types.
private func readArgument(_ text: String) {
  if let timeout = Timeout(argument: text) {
    expect(timeout.duration >= .zero && timeout.duration <= .seconds(3_600_000_000_001))
    expect(Timeout(argument: timeout.text)?.duration == timeout.duration)
  }
  if let condition = Condition(argument: text) { expect(condition.description == text) }
  if let address = IPAddress(text) {
    expect(IPAddress(address.description) == address, "\(address)")
    expect(IPAddress(bytes: address.bytes) == address)
  }
  _ = Resolver.isMoreThanHost(text)
}
