import ArgumentParser
import Glibc
import SwiftProtobuf

/// Servers and clients, of gRPC, of a WebSocket, of HTTP, of a database and of nothing but bytes, for the scenarios: what they live through, they tell
/// line by line.
@main
struct CallProbe: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callprobe",
    subcommands: [
      Serve.self, Call.self, ServeWebSocket.self, WebSocket.self, Query.self, ServeHTTP.self,
      Picture.self, Backup.self, Connections.self, ServeEchoes.self,
    ])
}

/// What every call of the service takes and returns.
typealias Text = Google_Protobuf_StringValue

/// The metadata key of a call's ID.
let callID = "call-id"

/// Prints one JSON object on a line of its own: the event, `at` in ns of CLOCK_MONOTONIC, and the fields that are known.
///
/// May be called by any thread: a line is written at once.
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
