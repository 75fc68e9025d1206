import Connectivity
import ConnectivityRules
import Netlink
import Testing

@testable import ConndServer

@Suite("Flows, and routers that are replaced")
struct FlowRouterTests {
  /// 192.0.2.1, with a hardware address that ends in this.
  private func router(_ last: UInt8) throws -> Neighbour {
    Neighbour(
      try IPAddress(spelt: "192.0.2.1"), link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
  }

  /// The kernel has something more to tell, and it is so by then.
  private func tell(_ events: [KernelEvent], _ kernel: ModelKernel) {
    kernel.untold.append {
      for case .neighbour(let neighbour) in events {
        kernel.neighbours[neighbour.address] = neighbour
      }
      return events
    }
  }

  /// The cable is moved: the carrier goes, and with it what was known of the neighbours.
  private func replug(_ kernel: ModelKernel) {
    for state in [LinkState.noCarrier, .up] {
      kernel.untold.append {
        kernel.setState(of: 2, state)
        kernel.neighbours = [:]
        return kernel.linkTable[2].map { [.link($0.link)] } ?? []
      }
    }
  }

  @Test(
    "I4 that a router takes another's address on a link that never went is advised to those behind it, and ends nothing"
  )
  func failover() throws {
    let gateway = try IPAddress(spelt: "192.0.2.1")
    var loop = try TestLoop.started { $0.neighbours[gateway] = try self.router(7) }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    // What the kernel forgets meanwhile is not another.
    loop.kernel.neighbours = [:]
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(try loop.kernel.watched.gateways == [self.router(7)])
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    #expect(loop.turn().sorted() == ["1 advise networkChanged", "2 advise networkChanged"])
    #expect(loop.invalidations == ["advise networkChanged"])
    #expect(loop.turn() == [])
    // The next one is told, too.
    self.tell([.neighbour(try self.router(9))], loop.kernel)
    #expect(loop.turn().sorted() == ["1 advise networkChanged", "2 advise networkChanged"])
    #expect(loop.invalidations == ["advise networkChanged", "advise networkChanged"])
  }

  @Test("I4 the router is found and replaced before anybody looks", arguments: [false, true])
  func routerReplacedAtOnce(isReplugged: Bool) throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.tell([.neighbour(try self.router(7))], loop.kernel)
    if isReplugged { self.replug(loop.kernel) }
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    // Which one it was made by is not known, but that it was another where the link went.
    #expect(loop.turn() == (isReplugged ? ["1 destroy networkChanged"] : []))
    // To all it is the link that was lost.
    #expect(loop.invalidations.first == (isReplugged ? "destroy interfaceLost" : nil))
  }

  @Test("I4 who begins when the router was replaced, is not on the network of before")
  func routerReplacedBefore() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.tell([.neighbour(try self.router(7))], loop.kernel)
    self.replug(loop.kernel)
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    // Requests are taken when what was told is read, and before anybody is looked at.
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(loop.turn() == ["1 destroy networkChanged"])
  }

  @Test("I4 another router that is replaced is not the flow's")
  func otherRouterReplaced() throws {
    let other = try IPAddress(spelt: "192.0.2.2")
    var loop = try TestLoop.started { kernel in
      try kernel.lead("203.0.113.0", 24, .over(2, via: "192.0.2.2", from: "192.0.2.7"))
      kernel.neighbours[try self.router(7).address] = try self.router(7)
    }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.replug(loop.kernel)
    // The default gateway's address moves to the router that the flow has had all along.
    let own = Neighbour(other, link: 2, hardwareAddress: [2, 0, 0, 0, 0, 8])
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    self.tell([.neighbour(own)], loop.kernel)
    #expect(loop.turn() == [])
    #expect(loop.invalidations.contains("destroy networkChanged"))
  }

  @Test("D7 a router whose address never rests delays nobody for ever")
  func restlessRouter() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    var last: UInt8 = 0
    kernel.onNeighbour = {
      last &+= 1
      kernel.neighbours[$0] = try? self.router(last)
    }
    self.tell([.neighbour(try self.router(0))], loop.kernel)
    loop.loop.beginTurn()
    loop.loop.deal(with: .init(hasMessages: true, slept: nil))
    // It goes on, between what others want.
    #expect(loop.loop.isBusy)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    loop.kernel.onNeighbour = { _ in }
    _ = loop.turn()
    #expect(!loop.loop.isBusy)
    #expect(loop.kernel.watched.gateways == [try self.router(last)])
  }
}
