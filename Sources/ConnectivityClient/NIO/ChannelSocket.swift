internal import NIOCore

/// The socket of a channel, on the channel's own thread.
struct ChannelSocket: SocketOptions {
  let channel: any NIOCore.Channel

  func option<Value: BitwiseCopyable & Sendable>(
    _ level: CInt, _ name: CInt, _ empty: Value
  ) -> Value? {
    guard let options = self.channel as? any SocketOptionProvider else { return nil }
    let answer: EventLoopFuture<Value> = options.unsafeGetSocketOption(
      level: NIOBSDSocket.OptionLevel(rawValue: level), name: NIOBSDSocket.Option(rawValue: name))
    var value: Value?
    // On that thread the result is available immediately.
    answer.assumeIsolated().whenSuccess { value = $0 }
    return value
  }
}
