import Glibc
import Synchronization
import TestKit

/// A link of a laboratory whose packets are delayed, and lost at random: a thread carries Ethernet
/// frames between two veth pairs in a third namespace. It lasts as long as this object.
final class LossyLink {
  private let middle: NetworkNamespace
  private let state = State()

  private final class State: Sendable {
    /// The probability of a loss in each direction, in thousandths.
    let loss = Atomic<Int>(0)
    /// One of this number of packets in both directions is lost. 0 means that all arrive.
    let period = Atomic<Int>(0)
    /// In microseconds, in each direction.
    let delay = Atomic<Int>(0)
    /// The bytes per second in each direction, or 0 without a limit.
    let rate = Atomic<Int>(0)
    /// The bytes that may wait in each direction. More are lost.
    let queue = Atomic<Int>(0)
    /// The bytes of IPv4 packets that the host has sent.
    let sent = Atomic<Int>(0)
    let removesMultipath = Atomic<Bool>(false)
    let isOver = Atomic<Bool>(false)
    let hasEnded = Atomic<Bool>(false)
  }

  /// - Parameters:
  ///   - name: of both ends.
  ///   - number: The addresses are 10.NUMBER.0.2 and, outside, 10.NUMBER.0.1.
  ///   - delay: in each direction.
  init(_ name: String, _ number: Int, in lab: Laboratory, delay: Duration) throws {
    let middle = try NetworkNamespace()
    self.middle = middle
    for (end, namespace, own) in [("near", lab.namespace, "2"), ("far", lab.outside, "1")] {
      // Without IPv6 the ends send nothing of their own.
      try middle.set("net/ipv6/conf/default/disable_ipv6", "1")
      let index = 100 * number + (end == "near" ? 50 : 60)
      try middle.ip(
        "link add \(end) type veth peer name \(name) index \(index) netns \(namespace.name)")
      try middle.ip("link set \(end) up")
      try namespace.ip("link set \(name) up")
      try namespace.ip("address add 10.\(number).0.\(own)/24 dev \(name)")
    }
    let sockets = try middle.perform { try ["near", "far"].map(Self.open) }
    let state = self.state
    state.delay.store(Int(delay / .microseconds(1)), ordering: .relaxed)
    startThread {
      // A network does not wait for processes of this machine. Without privilege it does.
      setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -15)
      Self.carry(sockets[0], sockets[1], state)
      for socket in sockets { close(socket) }
      state.hasEnded.store(true, ordering: .releasing)
    }
  }

  deinit {
    self.state.isOver.store(true, ordering: .relaxed)
    while !self.state.hasEnded.load(ordering: .acquiring) { sched_yield() }
  }

  /// Loses this share of the packets in each direction from now on.
  func lose(_ share: Double) {
    self.state.loss.store(Int(share * 1000), ordering: .relaxed)
  }

  /// Loses one of this number of packets from now on, counted in both directions together, so that
  /// a retransmission is never lost, too. 0 means that all arrive.
  func lose(oneOf period: Int) {
    self.state.period.store(period, ordering: .relaxed)
  }

  /// Delays packets by this time in each direction from now on.
  func delay(_ delay: Duration) {
    self.state.delay.store(Int(delay / .microseconds(1)), ordering: .relaxed)
  }

  /// Carries at most this number of bits a second in each direction from now on. Packets wait in a
  /// queue of this number of bytes.
  func limit(bitsPerSecond: Int, queue: Int) {
    self.state.queue.store(queue, ordering: .relaxed)
    self.state.rate.store(bitsPerSecond / 8, ordering: .relaxed)
  }

  /// Replaces the options of Multipath TCP by no-operations from now on, as some firewalls do.
  func removeMultipath() { self.state.removesMultipath.store(true, ordering: .relaxed) }

  /// Takes the carrier away from the host's end, or gives it back.
  func setCarrier(_ isOn: Bool) throws {
    try self.middle.ip("link set near \(isOn ? "up" : "down")")
  }

  /// The bytes of IPv4 packets that the host has sent so far, whether they were lost or not.
  var sentBytes: Int { self.state.sent.load(ordering: .relaxed) }

  // netpacket/packet.h and linux/if_packet.h, of which Glibc's module lacks a part.
  private static let packetLevel: CInt = 263  // SOL_PACKET
  private static let withOffloads: CInt = 15  // PACKET_VNET_HDR
  private static let ignoreOutgoing: CInt = 23  // PACKET_IGNORE_OUTGOING
  private static let all: UInt16 = 3  // ETH_P_ALL
  /// `struct virtio_net_hdr`, which carries unfinished checksums and segmentation.
  private static let offloadHeader = 10

  /// Opens a socket for all frames of a link.
  private static func open(_ link: String) throws -> CInt {
    let descriptor = socket(
      AF_PACKET, CInt(SOCK_RAW.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw CommandError("AF_PACKET: errno \(errno)") }
    for option in [self.withOffloads, self.ignoreOutgoing] {
      var on: CInt = 1
      guard setsockopt(descriptor, self.packetLevel, option, &on, 4) == 0 else {
        throw CommandError("packet option \(option): errno \(errno)")
      }
    }
    // struct sockaddr_ll: family, protocol, index, and 12 bytes that bind(2) ignores.
    var address = [UInt8](repeating: 0, count: 20)
    withUnsafeBytes(of: UInt16(AF_PACKET)) { address.replaceSubrange(0..<2, with: $0) }
    withUnsafeBytes(of: self.all.bigEndian) { address.replaceSubrange(2..<4, with: $0) }
    withUnsafeBytes(of: if_nametoindex(link)) { address.replaceSubrange(4..<8, with: $0) }
    let result = address.withUnsafeBytes { bytes in
      bytes.baseAddress.map { bind(descriptor, $0.assumingMemoryBound(to: sockaddr.self), 20) }
    }
    guard result == 0 else { throw CommandError("bind to \(link): errno \(errno)") }
    return descriptor
  }

  /// The checksum stays valid, because the sender left it to the device, which veth is not.
  private static func removeMultipath(from frame: inout [UInt8], _ count: Int) {
    let packet = self.offloadHeader + 14
    let segment = packet + Int(frame[packet] & 15) * 4
    guard frame[packet + 9] == UInt8(IPPROTO_TCP), segment + 20 <= count else { return }
    let end = min(segment + Int(frame[segment + 12] >> 4) * 4, count)
    var place = segment + 20
    while place + 1 < end, frame[place] != 0 {
      let length = frame[place] == 1 ? 1 : Int(frame[place + 1])
      guard length > 0, place + length <= end else { return }
      if frame[place] == 30 { for index in place..<place + length { frame[index] = 1 } }
      place += length
    }
  }

  private static func carry(_ near: CInt, _ far: CInt, _ state: State) {
    var random = SeededGenerator(seed: 7)
    var number = 0
    var waiting: [Direction] = [Direction(to: far), Direction(to: near)]
    var buffer = [UInt8](repeating: 0, count: 70_000)
    while !state.isOver.load(ordering: .relaxed) {
      var descriptors = [near, far].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      if poll(&descriptors, 2, waiting.allSatisfy(\.frames.isEmpty) ? 20 : 1) > 0 {
        for place in waiting.indices where descriptors[place].revents != 0 {
          while true {
            let count = recv(descriptors[place].fd, &buffer, buffer.count, CInt(MSG_DONTWAIT))
            guard count > Self.offloadHeader + 14 else { break }
            let isIPv4 =
              buffer[Self.offloadHeader + 12] == 8 && buffer[Self.offloadHeader + 13] == 0
            if isIPv4, place == 0 {
              state.sent.add(count - Self.offloadHeader - 14, ordering: .relaxed)
            }
            // Neighbours are found immediately: a limping Wi-Fi repeats its own frames, and long
            // round trips come from networks beyond.
            if !isIPv4 {
              _ = write(waiting[place].to, buffer, count)
              continue
            }
            number += 1
            let period = state.period.load(ordering: .relaxed)
            if period > 0, number.isMultiple(of: period) { continue }
            if Int.random(in: 0..<1000, using: &random) < state.loss.load(ordering: .relaxed) {
              continue
            }
            if state.removesMultipath.load(ordering: .relaxed) {
              Self.removeMultipath(from: &buffer, count)
            }
            waiting[place].append(Array(buffer[..<count]), state)
          }
        }
      }
      for place in waiting.indices { waiting[place].send() }
    }
  }

  /// The frames on their way to one end.
  private struct Direction {
    let to: CInt
    var frames: [(due: ContinuousClock.Instant, bytes: [UInt8])] = []
    /// When the link can carry another frame.
    private var free = ContinuousClock.now

    init(to: CInt) { self.to = to }

    mutating func append(_ frame: [UInt8], _ state: State) {
      let now = ContinuousClock.now
      self.free = max(self.free, now)
      let rate = state.rate.load(ordering: .relaxed)
      if rate > 0 {
        let end = self.free + .seconds(1) * frame.count / rate
        let bytes = Int(now.duration(to: end) / .seconds(1) * Double(rate))
        guard bytes <= max(frame.count, state.queue.load(ordering: .relaxed)) else { return }
        self.free = end
      }
      let delay = Duration.microseconds(state.delay.load(ordering: .relaxed))
      self.frames.append((self.free + delay, frame))
    }

    /// Sends the frames that are due.
    mutating func send() {
      let now = ContinuousClock.now
      let due = self.frames.prefix { $0.due <= now }
      for (_, frame) in due { _ = write(self.to, frame, frame.count) }
      self.frames.removeFirst(due.count)
    }
  }
}
