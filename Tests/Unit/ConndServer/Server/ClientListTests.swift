import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Client list")
struct ClientListTests {
  private static let (me, other) = (
    PeerCredentials(uid: 1000, pid: 41, groups: [1000]), PeerCredentials(uid: 1001, pid: 42)
  )

  @Test(
    "a user sees only their own streams; root and connd's own user see all, in order of arrival"
  )
  func users() {
    let list = ClientList()
    let first = list.enter(Self.me, .changes)
    _ = list.enter(Self.other, .path(destination: "203.0.113.9"))
    _ = list.enter(Self.me, .path(destination: "203.0.113.10"))
    func processes(_ user: UInt32) -> [Int32] {
      list.clients(for: user, ownUser: 990).map(\.process)
    }
    #expect(processes(1000) == [41, 41])
    #expect(processes(1001) == [42])
    #expect(processes(1002) == [])
    #expect(processes(0) == [41, 42, 41])
    #expect(processes(990) == [41, 42, 41])
    list.leave(first)
    list.leave(first)
    #expect(processes(0) == [42, 41])
  }

  @Test("a guarding client lists its number of flows and its last verdict")
  func guarding() {
    let list = ClientList()
    let mailbox = GuardMailbox(7)
    _ = list.enter(Self.me, .flows(mailbox))
    func client() -> Connectivity_V1_GuardingClient? {
      list.clients(for: 0).first.map { Connectivity_V1_Client($0, flows: [7: 3, 8: 5]) }?.guarding
    }
    #expect(client()?.flows == 3)
    #expect(client()?.hasReason == false && client()?.hasInvalidationTime == false)
    let verdict = FlowTracker.Verdict(.interfaceLost, .destroy)
    mailbox.post([
      .init(id: 1, event: .path(.unknown), generation: 1),
      .init(
        id: 2, event: .invalidation(verdict, ChangeCause(.link, "carrierLost"), .unknown),
        generation: 2),
      .init(id: 3, event: .path(.unknown), generation: 2),
    ])
    #expect(client()?.reason == .interfaceLost && client()?.severity == .destroy)
    #expect(client()?.hasInvalidationTime == true)
  }

  @Test("a process outside of connd's PID namespace has no number")
  func elsewhere() {
    let list = ClientList()
    _ = list.enter(PeerCredentials(uid: 1000, pid: 0), .changes)
    let client = list.clients(for: 1000).first.map { Connectivity_V1_Client($0, flows: [:]) }
    #expect(client?.process == 0)
    guard case .watch? = client?.subject else {
      Issue.record("\(String(describing: client))")
      return
    }
  }
}
