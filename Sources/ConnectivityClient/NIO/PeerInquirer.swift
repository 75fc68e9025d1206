internal import Connectivity
internal import ConnectivityMonitor
internal import NIOCore

/// Checks whether the peer of a channel's connection is alive, and sets the options that shorten
/// outages. Used only on the channel's thread.
///
/// Implements rules C11 and E4.
final class PeerInquirer {
  private let socket: ChannelSocket
  private let ping: (() -> Void)?
  private var lastPing: NIODeadline?
  private var outages: OutageOptions
  private var probe: (sent: KeepaliveProbe, timers: [Scheduled<Void>])?

  /// gRPC servers close connections that send more than one PING in five minutes, if the server has
  /// sent nothing in between (`GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS`).
  private static let pingInterval = TimeAmount.minutes(5)

  /// - Parameter ping: Sends an HTTP/2 PING, or `nil` if the connection does not use HTTP/2.
  init(_ channel: any NIOCore.Channel, shortensOutages: Bool, ping: (() -> Void)? = nil) {
    self.socket = ChannelSocket(channel: channel)
    self.outages = OutageOptions(isEnabled: shortensOutages)
    self.ping = ping
  }

  /// Handles an event of the connection's flow, or the absence of connd as `nil`.
  func note(_ event: FlowEvent?) {
    guard self.socket.channel.isActive else { return }
    if let event {
      self.outages.note(event, on: self.socket)
    } else {
      self.outages.restore(on: self.socket)
    }
  }

  /// Sends a keepalive probe. An idle socket sends it immediately.
  ///
  /// - Parameter isBusy: Whether the socket may have been idle for less than a second. If so, a
  ///   PING is sent as well, because the probe may be delayed.
  func ask(isBusy: Bool) {
    if isBusy, let ping = self.ping, self.lastPing.map({ $0 + Self.pingInterval <= .now() }) ?? true
    {
      self.lastPing = .now()
      ping()
    }
    guard self.probe == nil, let probe = KeepaliveProbe(on: self.socket) else { return }
    let loop = self.socket.channel.eventLoop
    let bound = NIOLoopBound(self, eventLoop: loop)
    let repeats = KeepaliveProbe.repeats.map { pause in
      loop.scheduleTask(in: TimeAmount(pause)) { bound.value.repeat() }
    }
    let end = loop.scheduleTask(in: TimeAmount(KeepaliveProbe.time)) { bound.value.endProbe() }
    self.probe = (probe, repeats + [end])
  }

  private func `repeat`() { self.probe?.sent.repeat(on: self.socket) }

  /// Ends the probe, and restores all options of the socket.
  func end() {
    self.endProbe()
    self.outages.restore(on: self.socket)
  }

  private func endProbe() {
    for timer in self.probe?.timers ?? [] { timer.cancel() }
    self.probe?.sent.end(on: self.socket)
    self.probe = nil
  }
}
