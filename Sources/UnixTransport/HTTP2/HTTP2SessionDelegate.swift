/// Receives the events of a session's streams while the session processes input or output.
///
/// The delegate must not call `receive` or `nextOutput` meanwhile, but may submit output.
protocol HTTP2SessionDelegate: AnyObject {
  typealias Bytes = UnsafeBufferPointer<UInt8>

  /// Called when the peer starts a request.
  func began(_ stream: Int32)
  func received(_ stream: Int32, header name: Bytes, _ value: Bytes)
  /// Called when a frame with headers begins.
  ///
  /// - Parameter size: The encoded size of these headers so far, including this frame.
  func receivingHeaders(_ size: Int)
  /// - Parameter isEnd: Whether the headers end the peer's input.
  func receivedHeaders(_ stream: Int32, isEnd: Bool)
  func received(_ stream: Int32, data: UnsafeRawBufferPointer)
  /// Called when the peer's input of a stream has ended.
  func inputEnded(_ stream: Int32)
  /// Called when all output of a stream, including its end, has been sent.
  func outputEnded(_ stream: Int32)
  /// - Parameter error: The HTTP/2 error (RFC 9113, 7).
  func closed(_ stream: Int32, _ error: UInt32)
  /// Called for a received frame that costs its sender little.
  func received(_ filler: HTTP2Session.Filler)
  /// Called for a received frame that the protocol forbids and nghttp2 ignores.
  func receivedForbidden()
  /// Called when headers or data of a stream have been sent.
  func sent(_ stream: Int32)
  /// Called when this side resets a stream because of the peer's input.
  func sentReset(_ stream: Int32)
  /// Called when the connection ends because of an error of the peer. The peer is notified.
  ///
  /// - Parameter error: The HTTP/2 error (RFC 9113, 7).
  func gaveUp(_ error: UInt32)
  /// Called when the peer starts and accepts no more streams, before streams that it never saw are
  /// closed.
  ///
  /// - Parameter reason: The reason, if the peer is overloaded (RFC 9113, 6.8).
  func receivedGoAway(_ reason: String?)
  /// Fills a frame with the stream's data.
  func fill(_ stream: Int32, _ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling
}
