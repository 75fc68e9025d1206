import Connectivity
import Foundation
import TestKit
import Testing

@testable import ConnectivityRules

/// The states of a flow's machine, and what each input does in each of them. The table in
/// docs/state-machines.md is made here: `CONND_UPDATE_TABLES=1` writes it.
@Suite("Flow machine")
struct FlowMachineTests {
  private static let start = Instant(sinceStart: .seconds(100))
  private static let wifi = FlowReading.by(.wifi)

  /// One connection with a socket, evaluated at times in milliseconds.
  private struct Guarded: Sendable {
    var machine: FlowMachine
    var isProof = true
    /// The numbers of bytes that its socket has sent and that the peer has acknowledged.
    var (sent, acknowledged): (UInt64, UInt64) = (1000, 1000)
    var time = 0

    init(_ question: PeerQuestion = .none, on reading: FlowReading = wifi) {
      let destination = Destination(
        "203.0.113.5", transport: Transport(Transport.tcp, localPort: 40_000, remotePort: 443))
      let local = reading.path.source ?? TestLink.wifi.source(.ipv4)
      let flow = Flow(destination, local: local, question: question)
      self.machine = FlowMachine(
        FlowTracker(flow, on: reading.path, network: reading.network))
    }

    private var now: Instant { start.advanced(by: .milliseconds(self.time)) }

    private func lookup(_ reading: FlowReading, isChange: Bool) -> FlowMachine.Lookup {
      FlowMachine.Lookup(
        reading, isCertain: false, isTunnelled: false, change: isChange ? self.now : nil,
        readAt: self.now, policy: InvalidationPolicy())
    }

    /// - Parameter silence: The time since the peer was heard, in milliseconds.
    private func report(silence: Int, timeouts: Int = 0) -> SocketReport {
      SocketReport(
        silence: .milliseconds(silence), progress: self.acknowledged,
        inFlight: self.sent - self.acknowledged, roundTrip: .milliseconds(1), timeouts: timeouts,
        hasUnacknowledgedData: self.sent > self.acknowledged, resent: UInt64(timeouts),
        nextTimeout: self.sent > self.acknowledged ? .milliseconds(200) : nil)
    }

    mutating func see(
      _ reading: FlowReading, silence: Int = 60_000, timeouts: Int = 0, isChange: Bool = true
    ) -> [FlowMachine.Action] {
      let questions = self.machine.handle(
        .lookup(self.lookup(reading, isChange: isChange)), at: self.now)
      let report = self.report(silence: silence, timeouts: timeouts)
      return self.machine.handle(
        .report(
          questions.contains(.askSocket) ? report : nil, isProof: self.isProof, contrast: nil),
        at: self.now)
    }

    mutating func inquire(silence: Int) -> [FlowMachine.Action] {
      self.machine.handle(
        .inquiry(
          self.report(silence: silence), change: self.now.advanced(by: .seconds(-1)),
          path: wifi.path),
        at: self.now)
    }
  }

  private static let dead = FlowReading.by(.wired, leaving: .failed)

  /// Another path, which a flow that has begun left because its link has failed.
  private static func other(for flow: Guarded) -> FlowReading {
    flow.machine.tracker.hasBegun ? dead : .by(.wired)
  }

  /// Returns a flow in a state.
  private static func flow(in state: FlowMachine.State) -> Guarded {
    var flow = Guarded()
    switch state {
    case .alive: break
    case .awaitingPath:
      let destination = Destination("203.0.113.5")
      flow.machine = FlowMachine(FlowTracker(Flow(destination), on: .unsatisfied(.noRoute)))
    case .inGrace: _ = flow.see(.noRoute)
    case .disputed: _ = flow.see(dead, silence: 1)
    case .spared:
      flow = self.flow(in: .disputed)
      flow.time = 30
      (flow.sent, flow.acknowledged) = (1100, 1100)
      _ = flow.see(dead, silence: 1, isChange: false)
    case .drained:
      flow.isProof = false
      _ = flow.see(dead)
    case .suspected:
      flow.sent = 1100
      flow.time = 1000
      _ = flow.inquire(silence: 2000)
    case .kernelUnavailable: _ = flow.see(.unknown)
    }
    flow.time += 10
    return flow
  }

  private struct Column: Sendable {
    var name: String
    var act: @Sendable (inout Guarded) -> [FlowMachine.Action]
  }

  private static let columns = [
    Column(name: "the lookup succeeds") { $0.see(wifi) },
    Column(name: "no path") { $0.see(.noRoute) },
    Column(name: "another path, and the link has failed: idle") { $0.see(other(for: $0)) },
    Column(name: "the same: just heard") { $0.see(other(for: $0), silence: 12) },
    Column(name: "the same: not proof (E0)") {
      $0.isProof = false
      return $0.see(other(for: $0))
    },
    Column(name: "the deadline: the peer was heard") { flow in
      guard let deadline = flow.machine.deadline else { return [] }
      flow.time = Int(start.duration(to: deadline) / .milliseconds(1))
      (flow.sent, flow.acknowledged) = (flow.sent + 50, flow.sent + 50)
      return flow.see(Self.standing(flow), silence: 0, isChange: false)
    },
    Column(name: "the deadline: silence") { flow in
      guard let deadline = flow.machine.deadline else { return [] }
      flow.time = Int(start.duration(to: deadline) / .milliseconds(1))
      return flow.see(
        Self.standing(flow), silence: flow.time + 60_000, timeouts: 2, isChange: false)
    },
    Column(name: "an inquiry (E2): data is not acknowledged") { flow in
      flow.sent += 50
      return flow.inquire(silence: 60_000)
    },
    Column(name: "no kernel") { $0.see(.unknown) },
  ]

  /// The lookup if nothing changes.
  private static func standing(_ flow: Guarded) -> FlowReading {
    switch flow.machine.state {
    case .disputed, .spared, .drained: dead
    case .inGrace, .awaitingPath: .noRoute
    case .alive, .suspected, .kernelUnavailable: wifi
    }
  }

  private static func text(_ action: FlowMachine.Action) -> String? {
    switch action {
    case .report(let verdict): "\(verdict.severity)"
    case .end(let verdict): "**\(verdict.severity)**"
    case .recovered: "recovered"
    case .betterPathGone: "better path gone"
    case .askPeer: "ask"
    case .askSocket, .askProof, .askContrast, .watch: nil
    }
  }

  /// One row of the table.
  private static func row(_ state: FlowMachine.State) -> String {
    let cells = self.columns.map { column in
      var flow = self.flow(in: state)
      let actions = column.act(&flow)
      let isOver = actions.contains { if case .end = $0 { true } else { false } }
      let words = actions.compactMap(self.text)
      let next = isOver || flow.machine.state == state ? [] : ["→ \(flow.machine.state.rawValue)"]
      return (words + next).joined(separator: " ")
    }
    return "| \(([state.rawValue] + cells).joined(separator: " | ")) |"
  }

  @Test(
    "each state is reached by the inputs that lead to it", arguments: FlowMachine.State.allCases)
  func state(_ state: FlowMachine.State) {
    #expect(Self.flow(in: state).machine.state == state)
  }

  @Test("I0 E1 E2 the table of states and inputs in docs is the machine's")
  func table() throws {
    let head = "| state | \(Self.columns.map(\.name).joined(separator: " | ")) |"
    let rule = "|\(String(repeating: "---|", count: Self.columns.count + 1))"
    let table = ([head, rule] + FlowMachine.State.allCases.map(Self.row)).joined(separator: "\n")
    let file = Checkout.path("docs/state-machines.md")
    let text = try String(contentsOfFile: file, encoding: .utf8)
    let marks = ("<!-- made by FlowMachineTests -->\n", "\n<!-- end -->")
    let begin = try #require(text.range(of: marks.0)?.upperBound)
    let end = try #require(text.range(of: marks.1)?.lowerBound)
    if getenv("CONND_UPDATE_TABLES") != nil {
      try text.replacingCharacters(in: begin..<end, with: table)
        .write(toFile: file, atomically: true, encoding: .utf8)
    } else {
      #expect(text[begin..<end] == table)
    }
  }

  @Test("K8 the kernel cannot be queried → a spared flow stays spared, and goes on so afterwards")
  func sparedWithoutKernel() {
    var flow = Self.flow(in: .spared)
    #expect(flow.see(.unknown).isEmpty && flow.machine.state == .kernelUnavailable)
    #expect(flow.see(Self.dead).isEmpty && flow.machine.state == .spared)
  }

  @Test("E1 the deadline passes while other flows are asked → nothing is decided without a report")
  func deadlineInBetween() throws {
    var flow = Self.flow(in: .disputed)
    let deadline = try #require(flow.machine.deadline)
    let lookup = FlowMachine.Lookup(
      Self.dead, isCertain: false, isTunnelled: false, change: deadline, readAt: deadline,
      policy: InvalidationPolicy())
    let before = deadline.advanced(by: .milliseconds(-2))
    #expect(flow.machine.handle(.lookup(lookup), at: before).isEmpty)
    let after = deadline.advanced(by: .milliseconds(1))
    #expect(
      flow.machine.handle(.report(nil, isProof: true, contrast: nil), at: after).isEmpty)
    #expect(flow.machine.state == .disputed && flow.machine.deadline == deadline)
  }

  @Test("the standing verdict is what the owner knows, and never a refuted end")
  func standing() {
    for state in FlowMachine.State.allCases {
      let standing = Self.flow(in: state).machine.unresolved
      let expected: String? =
        switch state {
        case .alive, .awaitingPath, .suspected, .kernelUnavailable: nil
        case .inGrace, .disputed, .spared: "advise interfaceLost"
        case .drained: "drain interfaceLost"
        }
      #expect(standing.map { "\($0.severity) \($0.reason)" } == expected, "\(state)")
    }
    var stranded = Self.flow(in: .alive)
    let reading = Self.wifi.with { $0.otherSourceLink = .failed }
    #expect(stranded.see(reading).compactMap(\.verdict).map(\.severity) == [.advise])
    #expect(stranded.machine.unresolved?.reason == .interfaceLost)
    _ = stranded.see(Self.wifi)
    #expect(stranded.machine.unresolved == nil)
  }

  @Test("a machine between two evaluations takes at most a KiB, because each guarded flow has one")
  func size() {
    #expect(MemoryLayout<FlowMachine>.size <= 1024)
  }

  @Test("I0 an evaluation that is not ended changes nothing of the flow")
  func abandoned() {
    let flow = Self.flow(in: .alive)
    var copy = flow
    let lookup = FlowMachine.Lookup(
      Self.dead, isCertain: false, isTunnelled: false, change: Self.start, readAt: Self.start,
      policy: InvalidationPolicy())
    #expect(copy.machine.handle(.lookup(lookup), at: Self.start) == [.askSocket, .askProof])
    #expect(flow.machine.state == .alive && copy.machine != flow.machine)
    // A report without a lookup is not expected, and does nothing.
    var other = flow
    #expect(
      other.machine.handle(.report(nil, isProof: true, contrast: nil), at: Self.start).isEmpty)
    #expect(other.machine == flow.machine)
  }
}
