import TestKit
import Testing

/// `connctl watch --json`, running beside the test. What it says is checked to be in order.
final class Watcher {
  let command: RunningCommand
  private var last: EventReport?

  init(socket: String, arguments: [String] = []) throws {
    self.command = try RunningCommand(
      [Programs.connctl, "--socket", socket, "watch", "--json"] + arguments)
  }

  /// The next event.
  ///
  /// - Throws: where it does not come in time.
  func next(within deadline: Duration = .seconds(10)) throws -> EventReport {
    guard let line = try self.command.nextLine(within: deadline) else {
      throw CommandError("connctl watch has ended: \(self.command.standardError)")
    }
    let event: EventReport = try decode(line)
    #expect(event.status.generation == event.generation)
    if let last = self.last, event.event != "gap" {
      #expect(event.generation == last.generation + 1, "\(last)\n\(event)")
      if event.event == "transition" {
        #expect(event.from == last.status.category, "\(last)\n\(event)")
        #expect(event.from != event.to || event.bounced == true, "\(event)")
      } else {
        #expect(event.status.category == last.status.category, "\(last)\n\(event)")
      }
    }
    self.last = event
    return event
  }
}
