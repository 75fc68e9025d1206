import ArgumentParser
import Glibc
import SwiftProtobuf

/// Servers and clients for the scenarios: gRPC, a WebSocket, HTTP, a database and plain bytes. They
/// report their events line by line.
@main
struct CallProbe: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callprobe",
    subcommands: [
      Serve.self, Call.self, ServeWebSocket.self, WebSocket.self, Query.self, ServeHTTP.self,
      Picture.self, Backup.self, Connections.self, ServeEchoes.self,
    ])
}

/// The request and response of every call.
typealias Text = Google_Protobuf_StringValue

/// The metadata key of a call's ID.
let callID = "call-id"

/// Prints one JSON object on its own line: the event, `at` in ns of CLOCK_MONOTONIC, and the known
/// fields.
///
/// Any thread may call it: a line is written atomically.
func report(_ event: String, channel: Int? = nil, _ fields: KeyValuePairs<String, String?> = [:]) {
  var now = timespec()
  clock_gettime(CLOCK_MONOTONIC, &now)
  var line = "{\"event\":\(quoted(event)),\"at\":\(now.tv_sec * 1_000_000_000 + now.tv_nsec)"
  if let channel { line += ",\"channel\":\(channel)" }
  for case (let name, let value?) in fields { line += ",\(quoted(name)):\(quoted(value))" }
  line += "}\n"
  var rest = Array(line.utf8)[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
    if count < 0 && errno != EINTR { return }
    rest = rest.dropFirst(max(0, count))
  }
}

private func quoted(_ text: String) -> String {
  (try? Text(text).jsonString()) ?? "\"\""
}
