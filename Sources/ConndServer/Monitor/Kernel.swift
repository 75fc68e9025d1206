import Connectivity
import ConnectivityRules
import Netlink

/// The one seam to the kernel: what happened, and what is true now.
///
/// The monitor's loop sees the kernel through this and nothing else. The real one is `NetlinkKernel`; in tests a model of a
/// kernel stands behind the same seam. Every call may throw `KernelUnavailable`. If that is not of one question, the kernel
/// is opened anew.
protocol Kernel {
  /// Becomes readable when the kernel has told something; -1 where nobody waits for it.
  var fileDescriptor: CInt { get }

  /// Whether the kernel has told something since `drain`.
  var hasMessages: Bool { get }

  /// Appends what the kernel has told since the last call.
  ///
  /// - Returns: whether more may be waiting.
  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool

  /// Has the kernel tell of what is watched, and of as little else as possible.
  func watch(_ watched: Watched) throws(KernelUnavailable)

  /// The ways to destinations, in their order. An error of one is its own answer.
  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer]

  /// For how long the answers that `routes(to:)` has given since the last call hold at least; `nil`: until the kernel tells.
  func takeExpiry() -> Duration?

  /// The entry of the routing tables that decides about a destination; `nil` where none carries traffic.
  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry?

  /// Whether the kernel drops what answers a connection, which sends from `destination.source`, when it comes in by a link.
  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool

  /// A link and its device; `nil` where there is none of that index.
  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts?

  /// All links.
  func links() throws(KernelUnavailable) -> [LinkFacts]

  /// An address of a link, if the link has it, with those that the kernel tells with it: of IPv4 all that the link has.
  func addresses(with address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> [Address]

  /// All addresses.
  func addresses() throws(KernelUnavailable) -> [Address]

  /// What the kernel knows of a neighbour; `nil` where that is nothing.
  func neighbour(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Neighbour?

  /// The port of a bridge behind which a hardware address is; `nil` where the bridge has not learnt it.
  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32?

  /// What nl80211 says of a link.
  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer

  /// How well a Wi-Fi link hears its access point; `nil` where it has none, or the driver does not say.
  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal?

  /// Returns what the sockets of connections say, or `nil` for each that cannot be asked. Each
  /// connection must name a socket (``Destination/namesSocket``). Never throws: without evidence
  /// the lookup decides.
  func socketReports(on connections: [Destination]) -> [SocketReport?]

  /// The policy rules of a family, in their order.
  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule]
}

/// The kernel cannot be asked, and why.
struct KernelUnavailable: Error, Hashable, CustomStringConvertible {
  var description: String
  /// Whether the kernel has refused one question only. What depends on the answer is unknown until it is asked again;
  /// everything else is as it was (K8).
  var isOfOneQuestion = false
}

extension KernelUnavailable {
  static let notOpen = KernelUnavailable(
    description: "netlink could not be opened; see connd's log")
}
