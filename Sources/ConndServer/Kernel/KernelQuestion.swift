import Connectivity
import ConnectivityRules
import Netlink

/// A question about the kernel's current state.
enum KernelQuestion: Hashable {
  /// The routes to destinations, which the kernel looks up in one exchange.
  case routes([Destination])
  /// The routing table entry that decides about a destination.
  case entry(Destination)
  /// Whether the kernel drops replies that arrive on a link, for a connection that sends from the
  /// destination's source.
  case refusesReplies(Destination, by: UInt32)
  /// A link and its device.
  case link(UInt32)
  /// The link with a name or alternative name.
  case linkNamed(String)
  case links
  /// An address of a link, and the other addresses in the same answer. For IPv4, these are all
  /// addresses of the link.
  case addresses(with: IPAddress, on: UInt32)
  case allAddresses
  case neighbour(IPAddress, on: UInt32)
  /// The bridge port behind which a MAC address is.
  case bridgePort([UInt8], on: UInt32)
  /// The state of a Wi-Fi link according to nl80211.
  case wirelessLink(UInt32)
  case wirelessSignal(UInt32)
  /// The state of connections' sockets. Each connection must name its socket
  /// (``Destination/namesSocket``).
  case sockets([Destination])
  /// Whether netfilter or IPVS may translate the addresses of connections.
  case translation
  /// The policy rules of an address family.
  case rules(AddressFamily)
  /// The routes that contain an address and discard traffic for a reason.
  case discardingRoutes(IPAddress, KernelPath.Reason)
}

/// The answer to a ``KernelQuestion``. Each question has one kind of answer.
enum KernelReply {
  /// In the order of the destinations. A failed lookup of one destination is also an answer.
  case routes([RouteAnswer])
  /// `nil` if no entry matches.
  case entry(RouteEntry?)
  /// Answers ``KernelQuestion/refusesReplies(_:by:)`` and ``KernelQuestion/translation``.
  case flag(Bool)
  /// `nil` if the link does not exist.
  case link(LinkFacts?)
  case links([LinkFacts])
  case addresses([Address])
  /// `nil` without a neighbour entry.
  case neighbour(Neighbour?)
  /// `nil` if the bridge has not learnt the MAC address.
  case bridgePort(UInt32?)
  case wirelessLink(WirelessAnswer)
  /// `nil` if the link has no access point or the driver does not report the strength.
  case wirelessSignal(WirelessSignal?)
  /// The reports in the order of the connections, with `nil` for a socket that cannot be queried.
  /// Without evidence, the route lookup decides.
  case sockets([SocketReport?])
  /// The rules in order of evaluation.
  case rules([Rule])
  case discardingRoutes([MatchedRoute])
}

// MARK: - Typed questions

extension Kernel {
  private func ask<Answer>(
    _ question: KernelQuestion, _ answer: (KernelReply) -> Answer?
  ) throws(KernelUnavailable) -> Answer {
    guard let answer = answer(try self.ask(question)) else {
      throw KernelUnavailable(
        description: "\(question): the kernel's answer has another kind", isOfOneQuestion: true)
    }
    return answer
  }

  /// Returns the routes to destinations, in the same order.
  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    try self.ask(.routes(destinations)) {
      if case .routes(let answers) = $0 { answers } else { nil }
    }
  }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    try self.ask(.entry(destination)) { if case .entry(let entry) = $0 { entry } else { nil } }
  }

  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.ask(.refusesReplies(destination, by: link)) {
      if case .flag(let refuses) = $0 { refuses } else { nil }
    }
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask(.link(index)) { if case .link(let link) = $0 { link } else { nil } }
  }

  func link(named name: String) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask(.linkNamed(name)) { if case .link(let link) = $0 { link } else { nil } }
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    try self.ask(.links) { if case .links(let links) = $0 { links } else { nil } }
  }

  func addresses(with address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> [Address] {
    try self.ask(.addresses(with: address, on: link)) {
      if case .addresses(let addresses) = $0 { addresses } else { nil }
    }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try self.ask(.allAddresses) {
      if case .addresses(let addresses) = $0 { addresses } else { nil }
    }
  }

  func neighbour(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Neighbour? {
    try self.ask(.neighbour(address, on: link)) {
      if case .neighbour(let neighbour) = $0 { neighbour } else { nil }
    }
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try self.ask(.bridgePort(hardwareAddress, on: bridge)) {
      if case .bridgePort(let port) = $0 { port } else { nil }
    }
  }

  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer {
    try self.ask(.wirelessLink(index)) {
      if case .wirelessLink(let link) = $0 { link } else { nil }
    }
  }

  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal? {
    try self.ask(.wirelessSignal(index)) {
      if case .wirelessSignal(let signal) = $0 { signal } else { nil }
    }
  }

  /// Returns the state of connections' sockets, in the same order, with `nil` for each socket
  /// without an answer.
  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    guard !connections.isEmpty else { return [] }
    let reports = try? self.ask(.sockets(connections)) {
      if case .sockets(let reports) = $0 { reports } else { nil }
    }
    return reports ?? connections.map { _ in nil }
  }

  /// Whether netfilter or IPVS may translate the addresses of connections. If the kernel does not
  /// answer, a route lookup counts as proof.
  func translatesConnections() -> Bool {
    (try? self.ask(.translation) { if case .flag(let may) = $0 { may } else { nil } }) ?? false
  }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] {
    try self.ask(.rules(family)) { if case .rules(let rules) = $0 { rules } else { nil } }
  }

  func discardingRoutes(
    of address: IPAddress, _ reason: KernelPath.Reason
  ) throws(KernelUnavailable) -> [MatchedRoute] {
    try self.ask(.discardingRoutes(address, reason)) {
      if case .discardingRoutes(let routes) = $0 { routes } else { nil }
    }
  }
}
