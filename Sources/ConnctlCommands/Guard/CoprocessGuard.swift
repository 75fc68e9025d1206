import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import Glibc
import LinuxSupport
import Synchronization

/// Guards the connections that standard input names, for `connctl guard --stdin`.
///
/// A thread reads the input, and never waits for connd. So a script may write all its lines before
/// it reads the first event. Only errors wait for a reader of the output.
///
/// The guard does not know whether a connection is new, and so whether it works. An error of connd
/// therefore refutes nothing (I11).
final class CoprocessGuard: Sendable {
  private let guarded: FlowGuard
  private let console: Console
  private let flow: @Sendable (GuardedConnection) -> FlowGuard.Flow
  private let flows = Mutex(CoprocessFlows())
  /// Two threads print lines.
  private let output = Mutex(())

  /// - Parameter flow: Returns the flow of a connection.
  init(
    _ guarded: FlowGuard, on console: Console,
    flow: @escaping @Sendable (GuardedConnection) -> FlowGuard.Flow
  ) {
    self.guarded = guarded
    self.console = console
    self.flow = flow
  }

  /// Returns at the end of the input.
  func run() async throws {
    let (input, ended) = AsyncThrowingStream.makeStream(of: Never.self)
    let isReading = Thread.start(named: "connctl-input") {
      do {
        try self.read()
        ended.finish()
      } catch {
        ended.finish(throwing: error)
      }
    }
    guard isReading else { throw OutputError(description: "cannot read: \(SystemError(EAGAIN))") }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { for try await _ in input {} }
      group.addTask { try await self.report() }
      defer { group.cancelAll() }
      try await group.next()
    }
  }

  // MARK: Input

  /// Reads the input to its end.
  private func read() throws {
    var lines = LineSplitter(maxBytes: FlowLine.maxBytes)
    var part = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      let count = Glibc.read(self.console.input, &part, part.count)
      if count > 0 {
        for line in lines.lines(in: part[..<count]) { try self.apply(line) }
      } else if count == 0 {
        return
      } else if errno != EINTR {
        throw OutputError(description: "cannot read standard input: \(SystemError())")
      }
    }
  }

  /// - Parameter line: A line, or `nil` if it was too long.
  private func apply(_ line: String?) throws {
    do throws(FlowLineError) {
      guard let text = line else {
        throw FlowLineError(nil, "a line has more than \(FlowLine.maxBytes) bytes")
      }
      let line = try FlowLine(text)
      let actions = try self.flows.withLock { flows throws(FlowLineError) in
        try flows.apply(line)
      }
      for action in actions {
        switch action {
        case .add(let key, let connection): self.guarded.add(self.flow(connection), id: key)
        case .remove(let key): self.guarded.remove(key)
        }
      }
    } catch {
      try self.complain(error.message, id: error.id, name: error.name)
    }
  }

  // MARK: Output

  /// Prints events until the task is cancelled.
  private func report() async throws {
    var hasAnswered = false
    var isAbsent = false
    while let event = await self.guarded.next() {
      switch event {
      case .absent(.elsewhere(let foreign)): throw foreign
      case .absent(.disconnected(let error)):
        if error.isFinal { throw error }
        if !isAbsent { self.console.remark(ConndMessage.absent(error, wasThere: hasAnswered)) }
        isAbsent = true
      // Without flows, the guard does not look for connd, so this may be wrong.
      case .resumed: continue
      case .question: continue
      case .flow(let key, let generation, let event):
        if isAbsent { self.console.remark(ConndMessage.back()) }
        (isAbsent, hasAnswered) = (false, true)
        try self.print(event, generation, key)
      }
    }
  }

  private func print(_ event: FlowEvent, _ generation: UInt64, _ key: UInt64) throws {
    let isLast =
      switch event {
      case .path, .betterPathGone: false
      case .invalidation(let invalidation): invalidation.severity == .destroy
      case .refused: true
      }
    let flow = self.flows.withLock { flows in
      defer { if isLast { flows.end(key) } }
      return flows[key]
    }
    guard let flow else { return }
    if case .refused(let refusal) = event {
      return try self.complain(
        "connd rejects the connection: \(refusal.message)", id: flow.id, name: flow.connection.name)
    }
    let object = JSON.flow(
      event, generation: generation, destination: flow.connection.remote.address,
      local: flow.connection.local.address)
    guard let object else { return }
    try self.print(
      object.appending(["id": .number(flow.id), "name": .string(flow.connection.name)]))
  }

  private func print(_ object: JSON) throws {
    try self.output.withLock { _ in try self.console.print(object) }
  }

  /// Reports a connection that is not guarded, or a line that has no effect.
  private func complain(_ message: String, id: UInt64?, name: String?) throws {
    self.console.remark((id.map { "connection \($0): " } ?? "") + message)
    try self.print([
      "event": "error", "message": .string(message), "id": .number(id), "name": .string(name),
    ])
  }
}
