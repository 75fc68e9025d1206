import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Diagnoses")
struct DiagnosisTests {
  private typealias Sockets = ObservedSockets
  private static let hosts = ObservedSockets.hosts
  private static let hosts6 = ObservedSockets.hosts6

  private func judge(_ body: (inout ObservedSockets) -> Void) -> Diagnosis {
    var sockets = ObservedSockets()
    body(&sockets)
    return sockets.diagnosis
  }

  // MARK: - Each verdict

  @Test("Q7 hosts are heard → nothing is wrong")
  func nothingWrong() {
    let diagnosis = self.judge { sockets in
      for host in Self.hosts { sockets.addHeard(host) }
      sockets.addIdle(Self.hosts[0], for: .seconds(60))
    }
    #expect(diagnosis.verdict == .nothingWrong && diagnosis.hosts.isEmpty)
    #expect(diagnosis.evidence == ["4 hosts heard within the last seconds"])
    #expect(diagnosis.connections == 5 && diagnosis.heardHosts == 4 && diagnosis.silentHosts == 0)
  }

  @Test("Q7 data waits although the peer's window is open → this machine does not let it out")
  func notLetOut() {
    let diagnosis = self.judge { sockets in
      sockets.addHeldBack(Self.hosts[0])
      sockets.addHeldBack(Self.hosts[1])
      sockets.addHeard(Self.hosts[2])
      sockets.addHeard(Self.hosts[0], user: Sockets.other)
    }
    #expect(diagnosis.verdict == .notLetOut && diagnosis.hosts == Array(Self.hosts[..<2]))
    #expect(diagnosis.path.chain.first?.name == "wlan0")
  }

  @Test("Q7 data waits because the path is gone → the machine has no path")
  func noPath() {
    let diagnosis = self.judge { sockets in
      sockets.addHeldBack(Self.hosts[0])
      let origin = DiagnosisFacts.Origin(source: Sockets.source, user: Sockets.own)
      sockets.facts.paths[origin]?.status = .unsatisfied
      sockets.facts.paths[origin]?.reason = .noCarrier
    }
    #expect(diagnosis.verdict == .noPath && diagnosis.evidence == ["the kernel says: no carrier"])
    let offline = self.judge { $0.facts.defaultPath = .unsatisfied(.noRoute) }
    #expect(offline.verdict == .noPath && offline.evidence == ["the kernel says: no route"])
  }

  @Test("Q7 data is sent again to several hosts and arrives → packets are lost on the way")
  func loss() {
    let diagnosis = self.judge { sockets in
      for host in Self.hosts[..<2] { sockets.addLossy(host) }
      for host in Self.hosts { sockets.addHeard(host) }
    }
    #expect(diagnosis.verdict == .packetsLost && diagnosis.hosts == Array(Self.hosts[..<2]))
    #expect(diagnosis.evidence.last?.contains("unknown") == true)
    let rare = self.judge { sockets in
      for host in Self.hosts[..<2] { sockets.addLossy(host) }
      for _ in 0..<2 { for host in Self.hosts { sockets.addHeard(host) } }
    }
    #expect(rare.verdict == .nothingWrong)
    let oneHost = self.judge { sockets in
      for _ in 0..<3 { sockets.addLossy(Self.hosts[0]) }
    }
    #expect(oneHost.verdict == .nothingWrong)
  }

  @Test("Q7 the driver reports lost frames, too → packets are lost on the link")
  func lossOnLink() {
    let diagnosis = self.judge { sockets in
      for host in [Self.hosts[0], Sockets.neighbour] { sockets.addLossy(host) }
      sockets.facts.troubledLinks = ["wlan0"]
    }
    #expect(diagnosis.verdict == .packetsLost)
    #expect(diagnosis.evidence.contains("1 of the hosts in this network"))
    #expect(diagnosis.evidence.last?.hasSuffix("they are lost on the link") == true)
  }

  @Test("Q7 no host beyond the router is heard → nothing off this network answers")
  func nothingAnswers() {
    for isLANHeard in [false, true] {
      let diagnosis = self.judge { sockets in
        for host in Self.hosts[..<2] { sockets.addSilent(host) }
        if isLANHeard { sockets.addHeard(Sockets.neighbour) }
      }
      #expect(diagnosis.verdict == .nothingAnswers)
      #expect(diagnosis.evidence.first == "2 hosts outside of this network silent, none heard")
      #expect(diagnosis.path.gateway == Sockets.router)
    }
    // A host and the DNS server are two hosts.
    let names = self.judge { sockets in
      sockets.addSilent(Self.hosts[0])
      sockets.facts.names = NameQueries(waiting: ["203.0.113.53"])
    }
    #expect(names.verdict == .nothingAnswers)
  }

  @Test("Q7 queries wait while hosts are heard → names are not resolved")
  func names() {
    let waiting = NameQueries(waiting: [Sockets.router])
    let diagnosis = self.judge { sockets in
      sockets.addHeard(Self.hosts[0])
      sockets.facts.names = waiting
    }
    #expect(diagnosis.verdict == .namesUnresolved && diagnosis.hosts == [Sockets.router])
    let alone = self.judge { $0.facts.names = waiting }
    #expect(alone.verdict == .namesUnresolved)
    #expect(alone.evidence.last?.contains("may be the network") == true)
    let filtered = self.judge { sockets in
      sockets.addHeard(Self.hosts[0])
      (sockets.facts.names, sockets.isFiltered) = (waiting, true)
    }
    #expect(filtered.verdict == .nothingWrong)
  }

  @Test("Q7 one host is silent and others are heard → only this server")
  func onlyServer() {
    let diagnosis = self.judge { sockets in
      sockets.addSilent(Self.hosts[0])
      sockets.addHeard(Self.hosts[1])
    }
    #expect(diagnosis.verdict == .onlyDestination && diagnosis.hosts == [Self.hosts[0]])
    #expect(diagnosis.port == nil && diagnosis.family == nil)
  }

  @Test("Q7 one address family, or one port, is silent → the verdict names it")
  func onlyFamilyOrPort() {
    let family = self.judge { sockets in
      for host in Self.hosts6 { sockets.addSilent(host) }
      sockets.addHeard(Self.hosts[0])
      sockets.facts.names = NameQueries(waiting: ["2001:db8:1::53"])
    }
    #expect(family.verdict == .onlyDestination && family.family == .ipv6)
    let port = self.judge { sockets in
      sockets.addSilent(Self.hosts[0], port: 22)
      sockets.addHeard(Self.hosts[0])
    }
    #expect(port.verdict == .onlyDestination && port.port == 22)
    let forgotten = self.judge { sockets in
      sockets.addSilent(Self.hosts[0])
      sockets.addHeard(Self.hosts[0])
    }
    #expect(forgotten.verdict == .onlyDestination && forgotten.port == nil)
    #expect(forgotten.evidence.last?.contains("forgotten") == true)
  }

  @Test("Q7 another person hears the same hosts → this user's way")
  func onlyUser() {
    let diagnosis = self.judge { sockets in
      for host in Self.hosts[..<2] {
        sockets.addSilent(host)
        sockets.addHeard(host, user: Sockets.other)
      }
    }
    #expect(diagnosis.verdict == .onlyUser && diagnosis.user == Sockets.own)
  }

  @Test("Q7 full segments are lost and small ones arrive → large packets are lost")
  func largePackets() {
    let diagnosis = self.judge { sockets in
      for host in Self.hosts[..<2] {
        sockets.addSilent(host, isFull: true)
        sockets.addHeard(host)
      }
    }
    #expect(diagnosis.verdict == .largePacketsLost && diagnosis.hosts == Array(Self.hosts[..<2]))
    // Two dead servers during uploads.
    let dead = self.judge { sockets in
      for host in Self.hosts[..<2] { sockets.addSilent(host, isFull: true) }
      sockets.addHeard(Self.hosts[2])
    }
    #expect(dead.verdict == .onlyDestination)
  }

  @Test("Q7 no traffic → unknown")
  func unknown() {
    #expect(self.judge { _ in }.evidence == ["no connection to judge by"])
    let idle = self.judge { $0.addIdle(Self.hosts[0], for: .seconds(60)) }
    #expect(idle.verdict == .unknown && idle.evidence == ["1 connection, and all are idle"])
    // One host proves nothing about the network.
    let single = self.judge { $0.addSilent(Self.hosts[0]) }
    #expect(single.verdict == .unknown && single.hosts == [Self.hosts[0]])
    let early = self.judge { sockets in
      sockets.add(Self.hosts[0], .init(), .init(timeouts: 1, inFlight: 1, sentAgain: 1))
    }
    #expect(early.verdict == .unknown && early.evidence.last?.contains("ask again") == true)
  }
}
