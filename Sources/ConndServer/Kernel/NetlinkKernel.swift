import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Netlink

/// The kernel as seen through the netlink sockets for routing and Wi-Fi, and the devices in sysfs.
/// Owned by the monitor thread.
final class NetlinkKernel: Kernel {
  private let listener: Listener
  private let requester: Requester
  /// `nil` without generic netlink.
  private let wireless: NL80211?
  private let waiting: WaitSet?
  private let sockets: any SocketSource
  private let devices: DeviceReader
  /// The links that were read last, with their devices as sysfs describes them. A device never
  /// changes while the link exists under its name. Stacked links are not remembered, because the
  /// links below their devices change.
  private var known: [UInt32: LinkFacts] = [:]
  private var unheard: UnheardLinks?
  /// The socket for sock_diag(7), opened by the first query, and by the next query after a failure.
  private var diagnosis: SocketDiagnosis?

  /// The maximum number of events that one drain reads from each socket.
  private static let batch = 4096

  /// - Parameters:
  ///   - sockets: The source of the netlink sockets.
  ///   - devices: The reader of sysfs.
  init(
    watching watched: FilterSpec, on sockets: any SocketSource, devices: DeviceReader
  ) throws(KernelUnavailable) {
    let listener: Listener
    do throws(NetlinkError) {
      listener = try Listener(on: sockets.open(.listener), watching: watched)
      self.requester = try Requester(on: sockets.open(.requester))
    } catch {
      throw KernelUnavailable(error)
    }
    self.listener = listener
    // Without nl80211, only sysfs identifies Wi-Fi links, and networks are identified by their
    // gateways.
    let wireless = try? NL80211(from: sockets)
    self.wireless = wireless
    self.waiting = wireless.flatMap { WaitSet([listener.fileDescriptor, $0.fileDescriptor]) }
    self.sockets = sockets
    self.devices = devices
    self.unheard = watched.unheard
  }

  var fileDescriptor: CInt { self.waiting?.fileDescriptor ?? self.listener.fileDescriptor }

  var hasMessages: Bool { self.sockets.isReadable(self.fileDescriptor) }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    let first = events.count
    // The kernel announces the nl80211 family before any Wi-Fi link. Draining the nl80211 socket
    // last ensures that connd knows the family when it reads such a link.
    let mayHaveMore = try exchange { () throws(NetlinkError) in
      let hasRouting = try self.listener.drain(into: &events, limit: Self.batch)
      let hasWireless = try self.wireless?.drain(into: &events, limit: Self.batch) ?? false
      return hasRouting || hasWireless
    }
    for event in events[first...] {
      switch event {
      case .linkRemoved(let link): self.known[link.index] = nil
      // The device of a ppp link changes when its session begins.
      case .link(let link) where link.kind == "ppp": self.known[link.index] = nil
      case .overrun: self.known = [:]
      default: break
      }
    }
    return mayHaveMore
  }

  func waitForChanges() { self.requester.waitForChanges() }

  func takeExpiry() -> Duration? { self.requester.takeExpiry() }

  func beginListing() throws(KernelUnavailable) -> LinkParts {
    let dump = try exchange { () throws(NetlinkError) in
      try LinkDump(on: self.sockets.open(.linkDump))
    }
    return { () throws(KernelUnavailable) in
      switch try exchange({ () throws(NetlinkError) in try dump.next() }) {
      case .links(let links, let isLast): .links(links.map(self.withDevice), isLast: isLast)
      case .restarted: .restarted
      }
    }
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    if watched.unheard != self.unheard {
      // If connd receives no messages about a link, the stored data of its device may become
      // outdated.
      self.unheard = watched.unheard
      self.known = [:]
    }
    try exchange { () throws(NetlinkError) in try self.listener.watch(watched) }
  }

  // MARK: - Questions

  func ask(_ question: KernelQuestion) throws(KernelUnavailable) -> KernelReply {
    do throws(NetlinkError) {
      return try self.answer(question)
    } catch {
      guard error.isAnswer else { throw KernelUnavailable(error) }
      // For these questions, a refusal means the same as a missing entry.
      switch question {
      case .linkNamed: return .link(nil)
      case .neighbour: return .neighbour(nil)
      case .bridgePort: return .bridgePort(nil)
      default: throw KernelUnavailable(error)
      }
    }
  }

  private func answer(_ question: KernelQuestion) throws(NetlinkError) -> KernelReply {
    let requester = self.requester
    switch question {
    case .routes(let destinations):
      // During a long series of lookups, a client that was woken by a publication may wait for this
      // processor.
      if destinations.count > 8 { sched_yield() }
      return .routes(try requester.routes(to: destinations))
    case .entry(let destination): return .entry(try requester.match(for: destination))
    case .refusesReplies(let destination, let link):
      return .flag(try requester.refusesReplies(to: destination, by: link))
    case .link(let index):
      return .link(try requester.link(index: index).map(self.withDevice))
    case .linkNamed(let name):
      return .link(try requester.link(named: name).map(self.withDevice))
    case .links: return .links(try self.links())
    case .addresses(let address, let link):
      return .addresses(try requester.addresses(with: address, on: link))
    case .allAddresses: return .addresses(try requester.addresses(on: nil))
    case .neighbour(let address, let link):
      return .neighbour(try requester.neighbour(address, on: link))
    case .bridgePort(let hardwareAddress, let bridge):
      return .bridgePort(try requester.bridgePort(of: hardwareAddress, on: bridge))
    // If nl80211 does not answer, connd goes on, because routes can still be looked up.
    case .wirelessLink(let index):
      guard let wireless = self.wireless else { return .wirelessLink(.notWireless) }
      return .wirelessLink((try? wireless.link(index)) ?? .incomplete(nil))
    case .wirelessSignal(let index): return .wirelessSignal(try? self.wireless?.signal(index))
    case .sockets(let connections): return .sockets(self.socketReports(on: connections))
    case .translation: return .flag(self.devices.translatesConnections())
    case .rules(let family): return .rules(try requester.rules(family))
    case .discardingRoutes(let address, let reason):
      return .discardingRoutes(try requester.discardingRoutes(of: address, reason))
    }
  }

  private func links() throws(NetlinkError) -> [LinkFacts] {
    let links = try self.requester.links()
    // The kernel does not always report that a link was removed.
    let present = Set(links.map(\.index))
    self.known = self.known.filter { present.contains($0.key) }
    return links.map(self.withDevice)
  }

  private func socketReports(on connections: [Destination]) -> [SocketReport?] {
    do throws(NetlinkError) {
      let diagnosis =
        if let diagnosis = self.diagnosis { diagnosis } else {
          try SocketDiagnosis(on: self.sockets.open(.socketDiagnosis))
        }
      self.diagnosis = diagnosis
      return try diagnosis.reports(on: connections)
    } catch {
      self.diagnosis = nil
      return connections.map { _ in nil }
    }
  }

  private func withDevice(_ link: Link) -> LinkFacts {
    var device: Device?
    if let known = self.known[link.index], known.link.name == link.name {
      if known.link == link { return known }
      device = known.device
    }
    let facts = LinkFacts(link, device: device ?? self.devices.device(of: link))
    if !facts.isStacked { self.known[link.index] = facts }
    return facts
  }
}

private func exchange<Answer>(
  _ question: () throws(NetlinkError) -> Answer
) throws(KernelUnavailable) -> Answer {
  do {
    return try question()
  } catch {
    throw KernelUnavailable(error)
  }
}

extension KernelUnavailable {
  fileprivate init(_ error: NetlinkError) {
    let hint = error.isPermission ? "; does a sandbox deny AF_NETLINK?" : ""
    self.init(description: "\(error)\(hint)", isOfOneQuestion: error.isAnswer)
  }
}
