import Connectivity
import ConnectivityRules
import Netlink

/// The only interface between the monitor loop and the kernel: its events and its current state.
///
/// `NetlinkKernel` is the real implementation. Tests use a model of a kernel. Every call may throw
/// `KernelUnavailable`. Unless the error concerns a single query, connd reopens the kernel.
protocol Kernel {
  /// Becomes readable when the kernel has sent a message; -1 if nothing waits for it.
  var fileDescriptor: CInt { get }

  /// Whether the kernel has sent a message since `drain`.
  var hasMessages: Bool { get }

  /// Appends the events since the last call.
  ///
  /// - Returns: Whether more may be waiting.
  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool

  /// Makes the next query wait until the kernel has completed every change that it has announced,
  /// even if the filter dropped the message. The kernel announces some changes before it makes
  /// them, and a route lookup does not wait for them (K2).
  func waitForChanges() throws(KernelUnavailable)

  /// Subscribes to what is watched, and to as little else as possible.
  func watch(_ watched: FilterSpec) throws(KernelUnavailable)

  /// Returns the routes to destinations, in the same order. A failed lookup of one destination is
  /// that destination's answer.
  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer]

  /// Returns how long the answers of `routes(to:)` since the last call remain valid, or `nil` if
  /// they hold until a kernel message.
  func takeExpiry() -> Duration?

  /// Returns the routing table entry that decides about a destination, or `nil` if no entry carries
  /// the traffic.
  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry?

  /// Whether the kernel drops replies that arrive by a link. They belong to a connection that sends
  /// from `destination.source`.
  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool

  /// Returns a link and its device, or `nil` if it does not exist.
  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts?

  /// Returns the link of a name or alternative name, or `nil` if it does not exist.
  func link(named name: String) throws(KernelUnavailable) -> LinkFacts?

  func links() throws(KernelUnavailable) -> [LinkFacts]

  /// Begins to list all links in parts, because a machine may have thousands.
  func beginListing() throws(KernelUnavailable) -> LinkParts

  /// Returns an address of a link, if the link has it, and the other addresses in the same answer.
  /// For IPv4, these are all addresses of the link.
  func addresses(with address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> [Address]

  func addresses() throws(KernelUnavailable) -> [Address]

  /// Returns the kernel's neighbour entry, or `nil` without one.
  func neighbour(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Neighbour?

  /// Returns the bridge port behind which a MAC address is, or `nil` if the bridge has not learnt
  /// it.
  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32?

  /// Returns what nl80211 reports about a link.
  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer

  /// Returns the signal strength of a Wi-Fi link, or `nil` if it has no access point or the driver
  /// does not report it.
  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal?

  /// Returns the state of the connections' sockets, or `nil` for each socket that cannot be
  /// queried. Each connection must name a socket (``Destination/namesSocket``). Never throws:
  /// without evidence the route lookup decides.
  func socketReports(on connections: [Destination]) -> [SocketReport?]

  /// Whether netfilter or IPVS may translate the addresses of connections. Never throws: without an
  /// answer, the route lookup is proof.
  func translatesConnections() -> Bool

  /// Returns the policy rules of an address family, in their order.
  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule]
}

/// Reads the next links of a listing, as ``LinkDump`` does.
typealias LinkParts = () throws(KernelUnavailable) -> LinkDump.Part<[LinkFacts]>

extension Kernel {
  func link(named name: String) throws(KernelUnavailable) -> LinkFacts? {
    try self.links().first { $0.link.name == name || $0.link.alternativeNames.contains(name) }
  }

  func beginListing() -> LinkParts {
    { () throws(KernelUnavailable) in .links(try self.links(), isLast: true) }
  }
}

/// The reason why the kernel cannot be asked.
struct KernelUnavailable: Error, Hashable, CustomStringConvertible {
  var description: String
  /// Whether the kernel refused only one query. Whatever depends on the answer is unknown until it
  /// is asked again. Everything else stays as it was (K8).
  var isOfOneQuestion = false
}

extension KernelUnavailable {
  static let notOpen = KernelUnavailable(
    description: "netlink cannot be opened; see connd's log")
}
