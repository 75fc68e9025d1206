/// A client's connection and its streams. It belongs to the reactor's thread.
final class ServerConnection: HTTP2ConnectionOwner {
  let server: UnixServer
  let peer: PeerCredentials
  private let socket: CInt
  private var connection: HTTP2Connection?
  private var streams: [Int32: ServerStream] = [:]

  /// Takes the socket, which does not block, and closes it in the end.
  init(_ socket: CInt, _ peer: PeerCredentials, _ server: UnixServer) {
    self.socket = socket
    self.peer = peer
    self.server = server
    self.connection = HTTP2Connection(
      socket,
      .server(streams: server.settings.streamsPerConnection, headerSize: RequestHead.longest), self,
      server.reactor)
  }

  func begin() throws(SystemError) { try self.connection?.begin() }

  /// `nil` when the connection is closed.
  var session: HTTP2Session? { self.connection?.session }

  func flushSoon() { self.connection?.flushSoon() }

  /// Takes no more calls, and closes when those that there are have ended.
  func finish() {
    self.connection?.finish()
    for stream in self.streams.values { stream.finish() }
  }

  /// Closes the socket, and ends what calls there are.
  func close() { self.connection?.close() }

  func connectionClosed() {
    let streams = self.streams.values
    self.streams = [:]
    for stream in streams { stream.close() }
    self.server.closed(self, self.socket)
  }

  // MARK: The session

  func began(_ stream: Int32) {
    self.streams[stream] = ServerStream(stream, self)
  }

  func received(_ stream: Int32, header name: Bytes, _ value: Bytes) {
    self.streams[stream]?.received(header: name, value)
  }

  func receivedHeaders(_ stream: Int32) {
    self.streams[stream]?.begin()
  }

  func received(_ stream: Int32, data: UnsafeRawBufferPointer) {
    self.streams[stream]?.received(data)
  }

  func inputEnded(_ stream: Int32) {
    self.streams[stream]?.inputEnded()
  }

  func outputEnded(_ stream: Int32) {
    self.streams[stream]?.outputEnded()
  }

  func receivedFiller() {
    self.connection?.receivedFiller()
  }

  func fill(_ stream: Int32, _ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling {
    self.streams[stream]?.fill(frame) ?? .nothing
  }

  func closed(_ stream: Int32, _ error: UInt32) {
    self.streams.removeValue(forKey: stream)?.close()
  }
}
