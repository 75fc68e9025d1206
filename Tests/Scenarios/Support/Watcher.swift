import TestKit
import Testing

/// `connctl watch --json`, running beside the test. Checks the order of its events.
final class Watcher {
  let command: RunningCommand
  private var last: EventReport?
  private var lastGeneration: UInt64?
  /// Invalidations that were read before an event, and not taken yet.
  private var invalidations: [InvalidationReport] = []

  init(socket: String, arguments: [String] = []) throws {
    self.command = try RunningCommand(
      [Programs.connctl, "--socket", socket, "watch", "--json"] + arguments)
  }

  /// The next event that is not an invalidation. Invalidations before it are kept for
  /// `nextInvalidation`.
  ///
  /// - Throws: if it does not come in time.
  func next(within deadline: Duration = .seconds(10)) throws -> EventReport {
    while true {
      switch try self.read(within: deadline) {
      case .invalidation(let invalidation): self.invalidations.append(invalidation)
      case .event(let event): return event
      }
    }
  }

  /// The next untaken invalidation; events before it are skipped.
  func nextInvalidation(within deadline: Duration = .seconds(10)) throws -> InvalidationReport {
    while self.invalidations.isEmpty {
      if case .invalidation(let invalidation) = try self.read(within: deadline) {
        self.invalidations.append(invalidation)
      }
    }
    return self.invalidations.removeFirst()
  }

  private enum Line {
    case event(EventReport)
    case invalidation(InvalidationReport)
  }

  private func read(within deadline: Duration) throws -> Line {
    guard let line = try self.command.nextLine(within: deadline) else {
      throw CommandError("connctl watch has ended: \(self.command.standardError)")
    }
    let kind: EventKindReport = try decode(line)
    if let last = self.lastGeneration, kind.event != "gap" {
      #expect(kind.generation == last + 1, "\(line) after \(last)")
    }
    self.lastGeneration = kind.generation
    guard kind.event != "invalidation" else { return .invalidation(try decode(line)) }
    return .event(try self.check(decode(line)))
  }

  private func check(_ event: EventReport) throws -> EventReport {
    #expect(event.status.generation == event.generation)
    if let last = self.last, event.event != "gap" {
      if event.event == "transition" {
        #expect(event.from == last.status.category, "\(last)\n\(event)")
        #expect(event.from != event.to || event.bounced == true, "\(event)")
      } else if event.status.category != last.status.category {
        // The path is described better, and is the same.
        let (now, before) = (event.status, last.status)
        #expect(now.interface == before.interface, "\(last)\n\(event)")
        #expect(now.ipv4.source == before.ipv4.source, "\(last)\n\(event)")
        #expect(now.ipv4.gateway == before.ipv4.gateway, "\(last)\n\(event)")
      }
    }
    self.last = event
    return event
  }
}

extension Watcher {
  /// Reads up to the next invalidation by a category change, and checks its scope and severity.
  func wideIs(_ severity: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
    while true {
      let invalidation = try self.nextInvalidation()
      guard invalidation.reason == "categoryChanged" else { continue }
      #expect(invalidation.severity == severity, "\(invalidation)", sourceLocation: sourceLocation)
      #expect(
        invalidation.scope
          == .init(interface: nil, family: nil, localAddresses: nil, destination: nil),
        sourceLocation: sourceLocation)
      return
    }
  }

  /// Reads up to the category change that destroys all earlier flows.
  func wideDestroy() throws {
    while true {
      let invalidation = try self.nextInvalidation()
      if invalidation.reason == "categoryChanged" && invalidation.severity == "destroy" { return }
    }
  }
}
