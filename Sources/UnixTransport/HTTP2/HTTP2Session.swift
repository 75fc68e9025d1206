import CNghttp2

/// One side of an HTTP/2 connection, without its socket. nghttp2 handles the frames, the header
/// compression, the windows and the stream states, and protects against most floods.
final class HTTP2Session {
  /// The maximum size of `nextOutput`: a frame's header, padding and payload (RFC 9113, 4.2).
  static let maxFrameSize = 9 + 1 + (16 << 10)

  enum Role {
    /// The maximum number of open streams per client, and of bytes in a request's headers.
    case server(streams: Int, headerSize: Int)
    case client
  }

  /// A frame that costs its sender little.
  enum Filler {
    case ping
    /// A frame without content: settings, a priority, or data without bytes.
    case empty
    /// A frame that is refused or unacceptable, although the connection continues. Each one causes
    /// a response.
    case invalid
  }

  /// The result of filling a frame.
  enum Filling {
    case bytes(Int)
    /// No data yet: the stream must be resumed when there is some.
    case nothing
    /// The last bytes, and the trailers after them.
    case end(Int, trailers: HeaderBlock?)
  }

  private var session: OpaquePointer?
  /// The encoded size of the headers that are being received.
  private var headersSize = 0
  private unowned let delegate: any HTTP2SessionDelegate

  init(_ role: Role, _ delegate: any HTTP2SessionDelegate) {
    self.delegate = delegate
    let user = Unmanaged.passUnretained(self).toOpaque()
    let settings: [nghttp2_settings_entry]
    switch role {
    case .server(let streams, let headerSize):
      nghttp2_session_server_new2(&self.session, Self.callbacks, user, Self.options)
      settings = [
        nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams),
        nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, headerSize),
        nghttp2_settings_entry(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1),
      ]
    case .client:
      nghttp2_session_client_new2(&self.session, Self.callbacks, user, Self.options)
      settings = [nghttp2_settings_entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)]
    }
    nghttp2_submit_settings(
      self.session, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
  }

  deinit {
    nghttp2_session_del(self.session)
  }

  /// Whether neither side has more to send.
  var isOver: Bool {
    nghttp2_session_want_read(self.session) == 0 && nghttp2_session_want_write(self.session) == 0
  }

  // MARK: Bytes

  /// Processes input.
  ///
  /// - Returns: `false` if the input is not HTTP/2 or is a flood, so that the connection must be
  ///   closed.
  func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let start = bytes.assumingMemoryBound(to: UInt8.self).baseAddress
    return nghttp2_session_mem_recv(self.session, start, bytes.count) == bytes.count
  }

  /// Returns the next output, valid until the next call, or `nil` if nothing is pending.
  func nextOutput() -> UnsafeRawBufferPointer? {
    var start: UnsafePointer<UInt8>?
    let count = nghttp2_session_mem_send(self.session, &start)
    return count > 0 ? UnsafeRawBufferPointer(start: start, count: count) : nil
  }

  private func countHeaders(_ head: nghttp2_frame_hd) {
    switch nghttp2_frame_type(UInt32(head.type)) {
    case NGHTTP2_HEADERS: self.headersSize = head.length
    case NGHTTP2_CONTINUATION: self.headersSize += head.length
    default: return
    }
    self.delegate.receivingHeaders(self.headersSize)
  }

  // MARK: Output

  /// Starts a request. `fill` provides its body.
  ///
  /// - Returns: The request's stream, or `nil` if no stream ids are left.
  func submitRequest(_ headers: HeaderBlock) -> Int32? {
    headers.withUnsafeFields { fields in
      var body = nghttp2_data_provider(source: .init(), read_callback: Self.fill)
      let stream = nghttp2_submit_request(
        self.session, nil, fields.baseAddress, fields.count, &body, nil)
      return stream > 0 ? stream : nil
    }
  }

  /// Starts a response. With a body, `fill` provides it.
  func submitResponse(_ stream: Int32, _ headers: HeaderBlock, hasBody: Bool) {
    headers.withUnsafeFields { fields in
      var body = nghttp2_data_provider(source: .init(), read_callback: Self.fill)
      if hasBody {
        nghttp2_submit_response(self.session, stream, fields.baseAddress, fields.count, &body)
      } else {
        nghttp2_submit_response(self.session, stream, fields.baseAddress, fields.count, nil)
      }
    }
  }

  /// Resumes a stream for which `fill` had no data.
  func resume(_ stream: Int32) {
    nghttp2_session_resume_data(self.session, stream)
  }

  /// Closes a stream after its response has ended and before its request has ended. This is not an
  /// error.
  func resetQuietly(_ stream: Int32) { self.reset(stream, NGHTTP2_NO_ERROR) }

  /// Closes a stream because no task waits for its response.
  func cancel(_ stream: Int32) { self.reset(stream, NGHTTP2_CANCEL) }

  /// Closes a stream with a malformed request.
  func resetMalformed(_ stream: Int32) { self.reset(stream, NGHTTP2_PROTOCOL_ERROR) }

  private func reset(_ stream: Int32, _ error: nghttp2_error_code) {
    nghttp2_submit_rst_stream(
      self.session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, UInt32(error.rawValue))
  }

  /// Lets the peer send this many more bytes in a stream.
  func consume(_ count: Int, of stream: Int32) {
    nghttp2_session_consume_stream(self.session, stream, count)
  }

  /// Ends the connection because of the peer's error. Must not be called within a callback, because
  /// nghttp2 continues with the current frame (CVE-2026-27135).
  func terminate(_ error: nghttp2_error_code) {
    nghttp2_session_terminate_session(self.session, UInt32(error.rawValue))
  }

  /// Accepts no more streams. Existing ones continue.
  func submitGoAway() {
    nghttp2_submit_goaway(
      self.session, UInt8(NGHTTP2_FLAG_NONE.rawValue),
      nghttp2_session_get_last_proc_stream_id(self.session), UInt32(NGHTTP2_NO_ERROR.rawValue),
      nil, 0)
  }
}

// MARK: - nghttp2's callbacks

extension HTTP2Session {
  private static func session(_ pointer: UnsafeMutableRawPointer?) -> HTTP2Session? {
    pointer.map { Unmanaged<HTTP2Session>.fromOpaque($0).takeUnretainedValue() }
  }

  /// A stream's window grows when its data is read, and the connection's window immediately, so
  /// that streams do not wait for each other.
  private nonisolated(unsafe) static let options: OpaquePointer? = {
    var options: OpaquePointer?
    nghttp2_option_new(&options)
    nghttp2_option_set_no_auto_window_update(options, 1)
    nghttp2_option_set_max_deflate_dynamic_table_size(options, 0)
    // Clients send any authority, such as a path, which HTTP does not allow.
    nghttp2_option_set_no_http_messaging(options, 1)
    // Cancelling after the response started is always allowed. The owner of the streams limits
    // rapid resets (CVE-2023-44487).
    nghttp2_option_set_stream_reset_rate_limit(options, UInt64(UInt32.max), UInt64(UInt32.max))
    // By default, nghttp2 keeps closed streams for a priority tree, which gRPC does not use.
    nghttp2_option_set_no_closed_streams(options, 1)
    // The maximum number of pending answers to pings and settings. With more, the session ends.
    nghttp2_option_set_max_outbound_ack(options, 100)
    return options
  }()

  private nonisolated(unsafe) static let callbacks: OpaquePointer? = {
    var callbacks: OpaquePointer?
    nghttp2_session_callbacks_new(&callbacks)
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { raw, head, user in
      guard let head = head?.pointee, let session = session(user) else { return 0 }
      let delegate = session.delegate
      session.countHeaders(head)
      switch nghttp2_frame_type(UInt32(head.type)) {
      case NGHTTP2_HEADERS where reusesStream(head.stream_id, raw): delegate.receivedForbidden()
      case NGHTTP2_PRIORITY where head.stream_id == 0: delegate.receivedForbidden()
      case NGHTTP2_PRIORITY: delegate.received(.empty)
      default: break
      }
      return 0
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
      if let frame, frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST {
        session(user)?.delegate.began(frame.pointee.hd.stream_id)
      }
      return 0
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      (_, frame, name, nameLength, value, valueLength, _, user) in
      guard let frame else { return 0 }
      session(user)?.delegate.received(
        frame.pointee.hd.stream_id, header: .init(start: name, count: nameLength),
        .init(start: value, count: valueLength))
      return 0
    }
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
      (raw, _, stream, start, count, user) in
      nghttp2_session_consume_connection(raw, count)
      session(user)?.delegate.received(stream, data: .init(start: start, count: count))
      return 0
    }
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
      guard let frame = frame?.pointee, let delegate = session(user)?.delegate else { return 0 }
      let type = UInt32(frame.hd.type)
      let isHeaders = type == NGHTTP2_HEADERS.rawValue
      if isHeaders { delegate.receivedHeaders(frame.hd.stream_id, isEnd: frame.endsStream) }
      if isHeaders || type == NGHTTP2_DATA.rawValue, frame.endsStream {
        delegate.inputEnded(frame.hd.stream_id)
      }
      if let filler = frame.filler { delegate.received(filler) }
      if type == NGHTTP2_GOAWAY.rawValue { delegate.receivedGoAway(frame.goaway.reason) }
      return 0
    }
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks) { _, _, _, user in
      session(user)?.delegate.received(.invalid)
      return 0
    }
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
      guard let frame = frame?.pointee, let delegate = session(user)?.delegate else { return 0 }
      let isHeaders = UInt32(frame.hd.type) == NGHTTP2_HEADERS.rawValue
      let isGoAway = UInt32(frame.hd.type) == NGHTTP2_GOAWAY.rawValue
      if isGoAway, frame.goaway.error_code != NGHTTP2_NO_ERROR.rawValue {
        delegate.gaveUp(frame.goaway.error_code)
      }
      if isHeaders || UInt32(frame.hd.type) == NGHTTP2_DATA.rawValue {
        delegate.sent(frame.hd.stream_id)
      }
      if UInt32(frame.hd.type) == NGHTTP2_RST_STREAM.rawValue,
        frame.rst_stream.error_code != NGHTTP2_NO_ERROR.rawValue
      {
        delegate.sentReset(frame.hd.stream_id)
      }
      if isHeaders, frame.endsStream { delegate.outputEnded(frame.hd.stream_id) }
      return 0
    }
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, error, user in
      session(user)?.delegate.closed(stream, error)
      return 0
    }
    return callbacks
  }()

  /// Whether a client starts a stream with an old number (RFC 9113, 5.1.1). Trailers would look the
  /// same, but gRPC's clients send none.
  private static func reusesStream(_ stream: Int32, _ session: OpaquePointer?) -> Bool {
    nghttp2_session_check_server_session(session) != 0
      && stream <= nghttp2_session_get_last_proc_stream_id(session)
      && nghttp2_session_find_stream(session, stream) == nil
  }

  private static let fill: nghttp2_data_source_read_callback = {
    raw, stream, start, count, flags, _, user in
    guard let flags, let delegate = session(user)?.delegate else {
      return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
    }
    switch delegate.fill(stream, .init(start: start, count: count)) {
    case .bytes(let count):
      return count
    case .nothing:
      return Int(NGHTTP2_ERR_DEFERRED.rawValue)
    case .end(let count, let trailers):
      flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
      guard let trailers else { return count }
      flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue)
      trailers.withUnsafeFields { fields in
        _ = nghttp2_submit_trailer(raw, stream, fields.baseAddress, fields.count)
      }
      return count
    }
  }
}

extension nghttp2_frame {
  fileprivate var endsStream: Bool { self.has(NGHTTP2_FLAG_END_STREAM) }

  fileprivate var filler: HTTP2Session.Filler? {
    switch nghttp2_frame_type(UInt32(self.hd.type)) {
    case NGHTTP2_PING: self.has(NGHTTP2_FLAG_ACK) ? nil : .ping
    case NGHTTP2_SETTINGS: self.has(NGHTTP2_FLAG_ACK) ? nil : .empty
    case NGHTTP2_DATA: self.hd.length == 0 && !self.endsStream ? .empty : nil
    default: nil
    }
  }

  private func has(_ flag: nghttp2_flag) -> Bool { UInt32(self.hd.flags) & flag.rawValue != 0 }
}

extension nghttp2_goaway {
  /// The reason that an overloaded peer has sent, or `nil` if it has sent none.
  fileprivate var reason: String? {
    guard self.error_code == NGHTTP2_ENHANCE_YOUR_CALM.rawValue, self.opaque_data_len > 0 else {
      return nil
    }
    return String(
      decoding: UnsafeBufferPointer(start: self.opaque_data, count: self.opaque_data_len),
      as: UTF8.self)
  }
}

extension nghttp2_settings_entry {
  fileprivate init(_ id: nghttp2_settings_id, _ value: Int) {
    self.init(settings_id: Int32(id.rawValue), value: UInt32(clamping: value))
  }
}
