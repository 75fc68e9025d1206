import GRPCCore
import Glibc

/// Makes unary calls, one by one, on one channel.
func call(_ transport: some ClientTransport, times: Int) async throws {
  try await withGRPCClient(transport: transport) { client in
    for _ in 0..<times { try await callOnce(client) }
  }
}

/// Prints the anonymous memory that a channel adds, connected and without a call, in bytes.
func hold<Transport: ClientTransport>(
  _ channels: Int, _ make: @Sendable () throws -> Transport
) async throws {
  try await withThrowingTaskGroup(of: Void.self) { connections in
    var clients: [GRPCClient<Transport>] = []
    func connect(_ count: Int) async throws {
      for _ in 0..<count {
        let client = GRPCClient(transport: try make())
        connections.addTask { try await client.runConnections() }
        try await callOnce(client)
        clients.append(client)
      }
    }
    // The first channels have one-time costs.
    try await connect(10)
    let before = anonymousMemory()
    try await connect(channels)
    say("\((anonymousMemory() - before) / channels)")
    for client in clients { client.beginGracefulShutdown() }
    try await connections.waitForAll()
  }
}

private func callOnce(_ client: GRPCClient<some ClientTransport>) async throws {
  let message = Echo.Message(repeating: 7, count: 64)
  let answer = try await client.unary(
    request: ClientRequest(message: message), descriptor: Echo.get, serializer: Bytes(),
    deserializer: Bytes(), options: .defaults
  ) { try $0.message }
  if answer != message { fail("the server answers something else") }
}

/// The process's anonymous memory, in bytes.
private func anonymousMemory() -> Int {
  guard let file = fopen("/proc/self/status", "r") else { fail("no /proc/self/status") }
  defer { fclose(file) }
  var line = [CChar](repeating: 0, count: 256)
  while fgets(&line, CInt(line.count), file) != nil {
    let words = String(
      decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self
    )
    .split { $0 == "\t" || $0 == " " }
    if words.count >= 2, words[0] == "RssAnon:", let kilobytes = Int(words[1]) {
      return kilobytes * 1024
    }
  }
  fail("no RssAnon in /proc/self/status")
}
