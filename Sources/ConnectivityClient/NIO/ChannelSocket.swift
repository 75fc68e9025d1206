private import Connectivity
internal import ConnectivityMonitor
internal import NIOCore

/// The socket of a channel. Used only on the channel's thread.
struct ChannelSocket: SocketOptions {
  let channel: any NIOCore.Channel

  func option<Value: BitwiseCopyable & Sendable>(
    _ level: CInt, _ name: CInt, _ empty: Value
  ) -> Value? {
    guard let options = self.channel as? any SocketOptionProvider else { return nil }
    let answer: EventLoopFuture<Value> = options.unsafeGetSocketOption(
      level: NIOBSDSocket.OptionLevel(rawValue: level), name: NIOBSDSocket.Option(rawValue: name))
    var value: Value?
    // On the channel's thread, the result is available immediately.
    answer.assumeIsolated().whenSuccess { value = $0 }
    return value
  }

  func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool {
    guard let options = self.channel as? any SocketOptionProvider else { return false }
    let answer: EventLoopFuture<Void> = options.unsafeSetSocketOption(
      level: NIOBSDSocket.OptionLevel(rawValue: level), name: NIOBSDSocket.Option(rawValue: name),
      value: value)
    var isSet = false
    answer.assumeIsolated().whenSuccess { isSet = true }
    return isSet
  }

  /// The subflows of a Multipath TCP connection, or `nil` if the kernel does not list them.
  var subflows: [Subflow]? {
    (try? self.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self
    ) { Subflow.list(of: $0) }) ?? nil
  }
}

extension ConnectionGuard {
  /// Guards a channel's new connection, or its subflows if it uses Multipath TCP.
  ///
  /// - Parameter local: The connection's local address.
  /// - Returns: Why the connection cannot be guarded, or `nil` if it is guarded.
  func connected(_ socket: ChannelSocket, from local: IPAddress, port: UInt16) -> GuardObstacle? {
    if let obstacle = socket.obstacle(from: local) { return obstacle }
    let subflows = socket.isMultipath ? socket.subflows : []
    guard let subflows else { return .multipath }
    // A Multipath TCP connection without an established subflow is closing.
    guard !subflows.isEmpty else {
      self.connected(local: local, port: port)
      return nil
    }
    let channel = socket.channel
    self.connected(by: subflows) {
      let list = channel.eventLoop.submit { ChannelSocket(channel: channel).subflows ?? [] }
      return (try? await list.get()) ?? []
    }
    return nil
  }
}
