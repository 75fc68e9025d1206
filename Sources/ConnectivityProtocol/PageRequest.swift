package import ConnectivityProtobuf
package import GRPCCore

/// The request for one page of a list (AIP-158).
///
/// A token contains the sort key of the last entry of its page. Entries that appear or disappear
/// between two pages therefore cause neither repetitions nor gaps.
package struct PageRequest: Sendable {
  /// The size at which a page ends, in bytes: half of what gRPC clients accept by default.
  package static let fullSize = 2 << 20

  fileprivate let maxEntries: Int
  fileprivate let list: String
  /// The key of the last entry of the previous page, or `nil` for the first page.
  fileprivate let previous: String?

  /// - Parameters:
  ///   - size: The maximum number of entries; 0 means as many as fit.
  ///   - token: The token of the page, or empty for the first one.
  ///   - list: The name of the list, with the request's other arguments. A token is valid for the
  ///     same list only.
  /// - Throws: INVALID_ARGUMENT that names the field.
  package init(size: Int32, token: String, of list: String) throws(RPCError) {
    guard size >= 0 else {
      throw RPCError(code: .invalidArgument, message: "page_size: must not be negative")
    }
    self.maxEntries = size == 0 ? .max : Int(size)
    self.list = list
    self.previous = token.isEmpty ? nil : Self.key(in: token, of: list)
    guard token.isEmpty || self.previous != nil else {
      throw RPCError(
        code: .invalidArgument,
        message: "page_token: is not from a previous page of the same request")
    }
  }

  /// Returns the entries after the previous page.
  ///
  /// - Parameter entries: The whole list, sorted by key.
  package func rest<Entry>(of entries: [Entry], key: (Entry) -> String) -> ArraySlice<Entry> {
    guard let previous else { return entries[...] }
    return entries.drop { key($0) <= previous }
  }

  /// Returns the encoded response with this page.
  ///
  /// Encodes entry by entry, because a machine with containers may have thousands of links. The
  /// encoded messages of a repeated field may be concatenated (Protobuf's "Encoding").
  ///
  /// - Parameters:
  ///   - entries: The whole list, sorted by key.
  ///   - key: Returns the sort key of an entry. Keys are unique.
  ///   - token: Returns a response with nothing but the token of the next page.
  ///   - response: Returns a response with nothing but this entry.
  package func encodedResponse<Entry, Response: Message>(
    with entries: some Sequence<Entry>, key: (Entry) -> String,
    token: (String) -> Response, _ response: (Entry) -> Response
  ) -> [UInt8] {
    var page = EncodedPage(self)
    for entry in entries {
      guard page.append(response(entry), key: key(entry)) else { return page.ended(token) }
    }
    return page.bytes
  }

  /// Returns the response with this page.
  package func response<Entry, Response: Message>(
    with entries: some Sequence<Entry>, key: (Entry) -> String,
    token: (String) -> Response, _ response: (Entry) -> Response
  ) throws(ProtobufError) -> Response {
    try Response(
      serializedBytes: self.encodedResponse(with: entries, key: key, token: token, response))
  }

  /// Returns the sort key of a number.
  package static func key(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  // MARK: - Tokens

  /// Returns the hexadecimal digits of the key, followed by those of a hash of list and key.
  fileprivate static func token(_ key: String, of list: String) -> String {
    key.utf8.map { octet in
      String(octet >> 4, radix: 16) + String(octet & 0xf, radix: 16)
    }.joined() + self.hash(key, of: list)
  }

  /// Returns the key in a token, or `nil` if it is not a token of the list.
  private static func key(in token: String, of list: String) -> String? {
    let digits = token.utf8.dropLast(16).map { Character(Unicode.Scalar($0)).hexDigitValue }
    var octets: [UInt8] = []
    for place in stride(from: 0, to: digits.count - digits.count % 2, by: 2) {
      guard let high = digits[place], let low = digits[place + 1] else { return nil }
      octets.append(UInt8(high << 4 | low))
    }
    let key = String(decoding: octets, as: UTF8.self)
    return token == self.token(key, of: list) ? key : nil
  }

  /// Returns an FNV-1a hash, which is sufficient to detect a mistake.
  private static func hash(_ key: String, of list: String) -> String {
    let octets = Array(list.utf8) + [0] + Array(key.utf8)
    return self.key(
      octets.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 })
  }
}

/// The encoded response with a page, to which entries are appended one by one.
package struct EncodedPage {
  package private(set) var bytes: [UInt8] = []
  private let request: PageRequest
  private var count = 0
  /// The key of the last entry of this page, or else of the previous page.
  private var last: String?

  package init(_ request: PageRequest) {
    self.request = request
    self.last = request.previous
  }

  /// Appends a response with nothing but an entry, unless the entry was on a previous page.
  ///
  /// - Returns: `false` if the page is full, so that nothing was appended.
  package mutating func append(
    _ response: @autoclosure () -> some Message, key: String
  ) -> Bool {
    if let previous = self.request.previous, key <= previous { return true }
    let isFull =
      self.count == self.request.maxEntries || self.bytes.count >= PageRequest.fullSize
    if self.last != nil, isFull { return false }
    self.bytes += response().serializedBytes()
    (self.last, self.count) = (key, self.count + 1)
    return true
  }

  /// Returns the response of a full page.
  ///
  /// - Parameter token: Returns a response with nothing but the token of the next page.
  package func ended(_ token: (String) -> some Message) -> [UInt8] {
    guard let last else { return self.bytes }
    return self.bytes + token(PageRequest.token(last, of: self.request.list)).serializedBytes()
  }
}
