import Connectivity
import ConnectivityRules
import Netlink
import Testing

@testable import ConndServer

@Suite("Flows whose router is replaced")
struct FlowRouterTests {
  /// 192.0.2.1, with a hardware address that ends in this byte.
  private func router(_ last: UInt8) throws -> Neighbour {
    Neighbour(
      try IPAddress(spelt: "192.0.2.1"), link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
  }

  /// Applies a change, and queues the kernel's messages about it.
  private func tell(_ events: [KernelEvent], _ kernel: ModelKernel) {
    kernel.untold.append {
      for case .neighbour(let neighbour) in events {
        kernel.neighbours[neighbour.address] = neighbour
      }
      return events
    }
  }

  /// Moves the cable: the carrier is lost, and the kernel forgets its neighbours.
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
    "I4 a router takes over another's address while the link stays up → flows are advised, none is destroyed"
  )
  func failover() throws {
    let gateway = try IPAddress(spelt: "192.0.2.1")
    var loop = try TestLoop.started { $0.neighbours[gateway] = try self.router(7) }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    // An entry that the kernel forgets in between is not another router.
    loop.kernel.neighbours = [:]
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(try loop.kernel.watched.gateways == [self.router(7)])
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    #expect(loop.turn().sorted() == ["1 advise networkChanged", "2 advise networkChanged"])
    #expect(loop.invalidations == ["advise networkChanged"])
    #expect(loop.turn() == [])
    // The next replacement is reported, too.
    self.tell([.neighbour(try self.router(9))], loop.kernel)
    #expect(loop.turn().sorted() == ["1 advise networkChanged", "2 advise networkChanged"])
    #expect(loop.invalidations == ["advise networkChanged", "advise networkChanged"])
  }

  @Test(
    "I4 the router is found and replaced before the next reading → destroyed only if the link went",
    arguments: [false, true])
  func routerReplacedAtOnce(isReplugged: Bool) throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.tell([.neighbour(try self.router(7))], loop.kernel)
    if isReplugged { self.replug(loop.kernel) }
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    // The router at the time of the registration is not known; if the link went, it was another
    // one.
    #expect(loop.turn() == (isReplugged ? ["1 destroy networkChanged"] : []))
    // Clients that watch all changes see the lost link.
    #expect(loop.invalidations.first == (isReplugged ? "destroy interfaceLost" : nil))
  }

  @Test("I4 a flow that begins after the router was replaced is not on the former network")
  func routerReplacedBefore() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.tell([.neighbour(try self.router(7))], loop.kernel)
    self.replug(loop.kernel)
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    // Requests are taken after the kernel's messages are read, and before any flow is evaluated.
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(loop.turn() == ["1 destroy networkChanged"])
  }

  @Test("I4 another router is replaced → the flow is not affected")
  func otherRouterReplaced() throws {
    let other = try IPAddress(spelt: "192.0.2.2")
    var loop = try TestLoop.started { kernel in
      try kernel.lead("203.0.113.0", 24, .over(2, via: "192.0.2.2", from: "192.0.2.7"))
      kernel.neighbours[try self.router(7).address] = try self.router(7)
    }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    self.replug(loop.kernel)
    // The default gateway's address moves to the router that the flow has used all along.
    let own = Neighbour(other, link: 2, hardwareAddress: [2, 0, 0, 0, 0, 8])
    self.tell([.neighbour(try self.router(8))], loop.kernel)
    self.tell([.neighbour(own)], loop.kernel)
    #expect(loop.turn() == [])
    #expect(loop.invalidations.contains("destroy networkChanged"))
  }

  @Test("D7 a router whose address keeps changing does not block other work")
  func restlessRouter() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    var last: UInt8 = 0
    kernel.onNeighbour = {
      last &+= 1
      kernel.neighbours[$0] = try? self.router(last)
    }
    self.tell([.neighbour(try self.router(0))], loop.kernel)
    loop.loop.turn(on: .init(hasMessages: true))
    // The reading continues between other work.
    #expect(loop.loop.isBusy)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    loop.kernel.onNeighbour = { _ in }
    _ = loop.turn()
    #expect(!loop.loop.isBusy)
    #expect(loop.kernel.watched.gateways == [try self.router(last)])
  }
}
