import Connectivity
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// The machine as a table: state and input → state and actions.
@Suite("I11 The guard of a connection, as a machine")
struct GuardMachineTests {
  /// Leads to each state. The connection has the address 192.0.2.7 of wlan0.
  private static let states: [String: [String]] = [
    "asking": [],
    "attempt": [],
    "late": ["silence"],
    "answered": ["path wlan0"],
    "rejected": ["destroy"],
    "made": ["path wlan0", "connected"],
    "doubted": ["path wlan0", "connected", "advise"],
    "sound": ["path wlan0", "connected", "path wlan0"],
    "kept": ["path wlan0", "connected", "path wlan0", "destroy", "keep"],
    "waiting": ["path wlan0", "connected", "path wlan0", "destroy", "keep and wait"],
    "returning": [
      "path wlan0", "connected", "path wlan0", "destroy", "keep and wait", "way wlan0",
    ],
    "following": ["path wlan0", "follow"],
    "unanswered": ["follow"],
    "ended": ["end"],
  ]

  /// State, input → state, actions.
  private static let table = """
    asking    | path wlan0    | ended                         | answer path, release 1
    asking    | no path       | ended                         | answer path, release 1
    asking    | advise        | asking 1 unreported           |
    asking    | destroy       | ended                         | answer dead, release 1
    asking    | refused       | ended                         | answer unguarded, release 1
    asking    | absent        | ended                         | answer unguarded, release 1
    asking    | silence       | ended                         | release 1
    asking    | connected     | asking 1 unreported           |
    asking    | keep          | asking 1 unreported           |
    asking    | follow        | asking 1 unreported           |
    asking    | end           | ended                         | release 1, answer unguarded

    attempt   | path wlan0    | attempt 1 reported            | answer: path wlan0, answer path
    attempt   | no path       | attempt 1 reported            | answer: no path, answer path
    attempt   | advise        | attempt 1 reported            | answer: advise
    attempt   | destroy       | attempt 1 destroyed           | answer: destroy, answer dead
    attempt   | refused       | attempt 1 reported            | answer: refused, answer unguarded
    attempt   | absent        | attempt 1 unreported          | absence, answer unguarded
    attempt   | silence       | attempt 1 unreported          |
    attempt   | connected     | connection 2 unreported       | register 2 from 192.0.2.7:40000, release 1
    attempt   | loopback      | attempt 1 unreported          |
    attempt   | keep          | kept 2 unreported             | register 2 on wlan0, release 1
    attempt   | follow        | following 1 unreported        |
    attempt   | end           | ended                         | release 1, answer unguarded

    late      | path wlan0    | attempt 1 reported            | verdict: path wlan0, answer path
    late      | destroy       | attempt 1 destroyed           | verdict: destroy, answer dead

    answered  | path eth0     | attempt 1 reported            | change: path eth0
    answered  | destroy       | attempt 1 destroyed           | change: destroy
    answered  | connected     | connection 2 unreported       | register 2 from 192.0.2.7:40000 made on wlan0, release 1
    answered  | elsewhere     | connection 2 unreported       | register 2 from 198.51.100.7:40000, release 1
    answered  | keep          | kept 2 unreported             | register 2 from 192.0.2.7 on wlan0, release 1

    rejected  | connected     | connection 2 unreported       | register 2 from 192.0.2.7:40000, release 1
    rejected  | follow        | following 2 unreported        | register 2, release 1

    made      | path wlan0    | connection 2 reported         | verdict: path wlan0
    made      | no path       | connection 2 doubted          | verdict: no path
    made      | advise        | connection 2 doubted          | verdict: advise
    made      | destroy       | connection 2 destroyed        | verdict: destroy
    made      | refused       | connection 2 reported         | verdict: refused
    made      | absent        | connection 2 unreported       | absence
    made      | old path      | connection 2 unreported       |
    made      | keep          | kept 3 unreported             | register 3 from 192.0.2.7:40000 on wlan0, release 2
    made      | follow        | following 2 unreported        |

    doubted   | path wlan0    | connection 2 reported         | outcome: path wlan0
    doubted   | no path       | connection 2 doubted          | change: no path
    doubted   | drain         | connection 2 doubted          | change: drain
    doubted   | destroy       | connection 2 destroyed        | outcome: destroy
    doubted   | absent        | connection 2 doubted          | absence
    doubted   | keep          | kept 3 unreported             | register 3 from 192.0.2.7:40000 on wlan0, release 2
    doubted   | follow        | following 2 reported          |

    sound     | no path       | connection 2 reported         | change: no path
    sound     | destroy       | connection 2 destroyed        | change: destroy
    sound     | silence       | connection 2 reported         |
    sound     | keep and wait | kept 3 unreported, way 4      | register 3 from 192.0.2.7:40000 on wlan0, register 4, release 2

    kept      | path wlan0    | kept 3 reported               | again: path wlan0
    kept      | no path       | kept 3 reported               | again: no path
    kept      | destroy       | kept 3 destroyed              | again: destroy
    kept      | old path      | kept 3 unreported             |
    kept      | connected     | kept 4 unreported             | register 4 from 192.0.2.7:40000 on wlan0, release 3
    kept      | keep and wait | kept 4 unreported, way 5      | register 4 from 192.0.2.7:40000 on wlan0, register 5, release 3
    kept      | follow        | following 4 unreported        | register 4, release 3
    kept      | end           | ended                         | release 3

    waiting   | path wlan0    | kept 3 reported, way 4        | again: path wlan0
    waiting   | destroy       | kept 3 destroyed              | again: destroy, release 4
    waiting   | way eth0      | kept 3 unreported, way 4      |
    waiting   | way lost      | kept 3 unreported, way 4      |
    waiting   | way wlan0     | returning 5 unreported        | register 5 from 192.0.2.7:40000 made on wlan0, release 3, release 4
    waiting   | connected     | kept 5 unreported, way 4      | register 5 from 192.0.2.7:40000 on wlan0, release 3
    waiting   | keep          | kept 5 unreported             | register 5 from 192.0.2.7:40000 on wlan0, release 3, release 4
    waiting   | follow        | following 5 unreported        | register 5, release 3, release 4
    waiting   | end           | ended                         | release 3, release 4

    returning | path wlan0    | connection 5 reported         | change: better path gone
    returning | path eth0     | kept 6 unreported             | register 6 from 192.0.2.7:40000 on wlan0, release 5
    returning | destroy       | connection 5 destroyed        | change: destroy
    returning | advise        | connection 5 reported         | change: advise
    returning | absent        | returning 5 unreported        | absence
    returning | keep          | kept 6 unreported             | register 6 from 192.0.2.7:40000 on wlan0, release 5
    returning | follow        | following 6 unreported        | register 6, release 5

    following | path eth0     | following 1 reported          | change: path eth0
    following | destroy       | following 2 unreported        | change: destroy, register 2, release 1
    following | connected     | following 1 reported          |
    following | keep          | following 1 reported          |
    following | follow        | following 1 reported          |
    following | end           | ended                         | release 1

    unanswered | path wlan0   | following 1 reported          | again: path wlan0, answer path
    unanswered | no path      | following 1 reported          | again: no path, answer path
    unanswered | destroy      | following 1 destroyed         | again: destroy, answer dead

    ended     | path wlan0    | ended                         |
    ended     | absent        | ended                         |
    ended     | silence       | ended                         |
    ended     | connected     | ended                         |
    ended     | keep          | ended                         |
    ended     | follow        | ended                         |
    ended     | end           | ended                         |
    """

  @Test("I11 each state and input → the next state and the actions")
  func rows() throws {
    var states = Set(Self.states.keys)
    for line in Self.table.split(separator: "\n") {
      let cells = line.split(separator: "|", omittingEmptySubsequences: false).map(\.trimmed)
      try #require(cells.count == 4, "\(line)")
      var machine = try Self.machine(in: cells[0])
      let actions = machine.handle(try machine.input(cells[1]))
      #expect(machine.state.words == cells[2], "\(line)")
      #expect(actions.map(\.words).joined(separator: ", ") == cells[3], "\(line)")
      states.remove(cells[0])
    }
    #expect(states.isEmpty)
  }

  @Test("I11 the first report about a dead path ends it → it is not registered again")
  func deadPath() throws {
    var machine = try Self.machine(in: "rejected")
    _ = machine.handle(.follow)
    #expect(machine.handle(try machine.input("destroy")).map(\.words) == ["change: destroy"])
  }

  @Test("I11 the path of new connections ends → it is registered again, unless it was dead before")
  func lostWay() throws {
    var machine = try Self.machine(in: "waiting")
    _ = machine.handle(try machine.input("way eth0"))
    #expect(
      machine.handle(try machine.input("way lost")).map(\.words) == ["register 5", "release 4"])
  }

  @Test("I8 a kept connection and a followed path → the cost of the path does not matter")
  func costs() throws {
    let remote = try #require(IPAddress("203.0.113.9"))
    let flow = FlowGuard.Flow(remote: remote, forbidsExpensive: true, forbidsConstrained: true)
    for input in [GuardMachine.Input.keep(on: "wlan0", awaitsReturn: true), .follow] {
      var (machine, _) = GuardMachine.begin(flow)
      _ = machine.handle(try machine.input("destroy"))
      let flows = machine.handle(input).compactMap { action in
        if case .register(_, let flow, _) = action { flow } else { nil }
      }
      #expect(!flows.isEmpty)
      #expect(flows.allSatisfy { !$0.forbidsExpensive && !$0.forbidsConstrained })
    }
  }

  private static func machine(in state: String) throws -> GuardMachine {
    let remote = try #require(IPAddress("203.0.113.9"))
    let flow = FlowGuard.Flow(remote: remote, transport: Transport(6, remotePort: 443))
    var (machine, beginning) = GuardMachine.begin(flow, onlyAsks: state == "asking")
    #expect(beginning.words == "register 1")
    for input in try #require(Self.states[state]) {
      _ = machine.handle(try machine.input(input))
    }
    return machine
  }
}

extension GuardMachine {
  fileprivate func input(_ words: String) throws -> Input {
    let ids = (1...9).map { UInt64($0) }.filter(self.listens)
    let (own, way) = (ids.first ?? 1, ids.last ?? 1)
    let local = try #require(IPAddress("192.0.2.7"))
    let other = try #require(IPAddress("198.51.100.7"))
    let loopback = try #require(IPAddress("127.0.0.1"))
    func path(_ link: String) -> FlowEvent {
      .path(
        KernelPath(
          status: .satisfied, chain: [KernelPath.Link(index: link == "wlan0" ? 3 : 2, name: link)],
          source: link == "wlan0" ? local : other))
    }
    func invalidation(_ severity: Invalidation.Severity) -> FlowEvent {
      .invalidation(
        InvalidationError(
          reason: .interfaceLost, severity: severity, cause: ChangeCause(.link, "linkDown"),
          path: .unsatisfied(.noRoute)))
    }
    switch words {
    case "path wlan0": return .event(path("wlan0"), of: own)
    case "path eth0": return .event(path("eth0"), of: own)
    case "no path": return .event(.path(.unsatisfied(.noRoute)), of: own)
    case "advise": return .event(invalidation(.advise), of: own)
    case "drain": return .event(invalidation(.drain), of: own)
    case "destroy": return .event(invalidation(.destroy), of: own)
    case "refused": return .event(.refused(.invalid("no")), of: own)
    case "old path": return .event(path("wlan0"), of: 1)
    case "way wlan0": return .event(path("wlan0"), of: way)
    case "way eth0": return .event(path("eth0"), of: way)
    case "way lost": return .event(invalidation(.destroy), of: way)
    case "absent": return .absent(.disconnected(.notAvailable("gone")), of: own)
    case "silence": return .silence
    case "connected": return .connected(local, port: 40_000)
    case "elsewhere": return .connected(other, port: 40_000)
    case "loopback": return .connected(loopback, port: 40_000)
    case "keep": return .keep(on: "wlan0", awaitsReturn: false)
    case "keep and wait": return .keep(on: "wlan0", awaitsReturn: true)
    case "follow": return .follow
    case "end": return .end
    default: throw UnknownWords(words: words)
    }
  }
}

private struct UnknownWords: Error { var words: String }

extension GuardMachine.State {
  fileprivate var words: String {
    switch self {
    case .asking(let own): "asking \(own.words)"
    case .attempt(let own): "attempt \(own.words)"
    case .connection(let own): "connection \(own.words)"
    case .kept(let own, let back):
      "kept \(own.words)" + (back.map { ", way \($0.registration.id)" } ?? "")
    case .returning(let own, _): "returning \(own.words)"
    case .subflows(let subflows): "subflows \(subflows.guarded.map(\.registration.id))"
    case .following(let own): "following \(own.words)"
    case .ended: "ended"
    }
  }
}

extension GuardMachine.Registration {
  fileprivate var words: String { "\(self.id) \(self.progress)" }
}

extension GuardMachine.Action {
  var words: String {
    switch self {
    case .register(let id, let flow, let path):
      var words = "register \(id)"
      if let local = flow.local {
        words += " from \(local)"
        if let port = flow.transport?.localPort, port != 0 { words += ":\(port)" }
      }
      if let link = flow.interface { words += " on \(link)" }
      if let link = path?.interface { words += " made on \(link)" }
      return words
    case .release(let id): return "release \(id)"
    case .report(let event, let phase, _): return "\(phase): \(event.words)"
    case .reportAbsence: return "absence"
    case .listSubflows(let pause, _): return pause > .zero ? "list later" : "list"
    case .answer(.path): return "answer path"
    case .answer(.invalidation): return "answer dead"
    case .answer(.unguarded): return "answer unguarded"
    case .answer(.silence): return "answer silence"
    }
  }
}

extension FlowEvent {
  var words: String {
    switch self {
    case .path(let path): path.interface.map { "path \($0)" } ?? "no path"
    case .betterPathGone: "better path gone"
    case .invalidation(let invalidation): invalidation.severity.rawValue
    case .refused: "refused"
    }
  }
}

extension Substring {
  fileprivate var trimmed: String {
    String(self.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }
}
