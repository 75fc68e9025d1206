import CNghttp2
import GRPCCore
import Testing

@testable import UnixTransport

@Suite("Request headers")
struct RequestHeadTests {
  private static let call = [
    ":method": "POST", ":scheme": "http", ":path": "/some.Service/Method",
    "content-type": "application/grpc+proto",
  ]

  private func reading(_ changes: [String: String] = [:]) -> RequestHead.Reading {
    var head = RequestHead()
    for (name, value) in Self.call.merging(changes, uniquingKeysWith: { $1 }).sorted(by: <) {
      head.take(name, value)
    }
    return head.read()
  }

  @Test("a call names a service and a method, whatever its authority")
  func call() {
    guard case .call(let method) = self.reading([":authority": "anything", "te": "trailers"])
    else {
      Issue.record("no call")
      return
    }
    #expect(method.fullyQualifiedMethod == "some.Service/Method")
  }

  @Test(
    "a request that is not gRPC is refused with an HTTP status",
    arguments: [
      ([":method": "GET"], "405"), (["content-type": "text/html"], "415"),
      (["content-type": "application/grpc-web+proto"], "415"),
      (["content-type": "application/grpc+json"], "415"),
      (["content-type": "application/grpcfoo"], "415"), (["content-type": ""], "415"),
    ])
  func notGRPC(changes: [String: String], status: String) {
    guard case .notGRPC(let headers) = self.reading(changes) else {
      Issue.record("not refused")
      return
    }
    #expect(headers.fields == [":status": status])
  }

  @Test(
    "an unsupported call ends with UNIMPLEMENTED",
    arguments: [
      [":path": "/"], [":path": "no/slash"], [":path": "/a/b/c"], ["grpc-encoding": "gzip"],
    ])
  func refused(changes: [String: String]) {
    guard case .refused(let headers) = self.reading(changes) else {
      Issue.record("not refused")
      return
    }
    #expect(headers.fields["grpc-status"] == "12")
    #expect(headers.fields["grpc-message"] != nil)
  }

  @Test(
    "every content type of protobuf messages is accepted",
    arguments: ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"])
  func protobuf(type: String) {
    guard case .call = self.reading(["content-type": type]) else {
      Issue.record("no call")
      return
    }
  }

  @Test(
    "an invalid HTTP/2 request is malformed (RFC 9113, 8.1.1)",
    arguments: [
      [":status": "200"], [":path": ""], [":scheme": ""], ["Te": "trailers"], ["te": "gzip"],
      ["content-length": "-1"], ["content-length": "x"], ["connection": "close"],
      ["transfer-encoding": "chunked"], ["upgrade": "h2c"], ["": "x"],
    ])
  func malformed(changes: [String: String]) {
    guard case .malformed = self.reading(changes) else {
      Issue.record("taken")
      return
    }
  }

  @Test(
    "each pseudo-header comes once, and before the fields",
    arguments: [
      [":method", ":path", ":scheme", "te"], [":method", ":scheme", ":path", ":path", "te"],
      [":method", ":path", "te", ":scheme"], [":method", ":scheme", "te"], [":path", ":scheme"], [],
    ])
  func order(names: [String]) {
    let values = [":method": "POST", ":scheme": "http", ":path": "/s.S/M", "te": "trailers"]
    var head = RequestHead()
    for name in names { head.take(name, values[name] ?? "") }
    let isRight = names == [":method", ":path", ":scheme", "te"]
    if case .malformed = head.read() { #expect(!isRight) } else { #expect(isRight) }
  }

  @Test("the encoding identity is accepted")
  func identity() {
    guard case .call = self.reading(["grpc-encoding": "identity"]) else {
      Issue.record("no call")
      return
    }
  }

  @Test("headers are limited in length, including the overhead of fields")
  func length() {
    var head = RequestHead()
    for (name, value) in Self.call.sorted(by: <) { head.take(name, value) }
    for _ in 0..<RequestHead.maxSize / 34 - 10 { head.take("a", "b") }
    guard case .call = head.read() else {
      Issue.record("no call")
      return
    }
    for _ in 0..<10 { head.take("a", "b") }
    guard case .refused(let headers) = head.read() else {
      Issue.record("not refused")
      return
    }
    #expect(headers.fields["grpc-status"] == "8")
  }

  @Test("a status message is percent-encoded, and cut to the length that clients accept")
  func message() throws {
    let headers = HeaderBlock.trailers(Status(code: .aborted, message: "50 % für\nalle\u{7F}"))
    #expect(headers.fields == ["grpc-status": "10", "grpc-message": "50 %25 f%C3%BCr%0Aalle%7F"])
    let long = HeaderBlock.trailers(
      Status(code: .aborted, message: String(repeating: "ü", count: 100_000)))
    let length = try #require(long.fields["grpc-message"]).utf8.count
    #expect((4096..<4100).contains(length))
    #expect(HeaderBlock.trailers(Status(code: .ok, message: "")).fields == ["grpc-status": "0"])
  }
}

extension RequestHead {
  fileprivate mutating func take(_ name: String, _ value: String) {
    Array(name.utf8).withUnsafeBufferPointer { name in
      Array(value.utf8).withUnsafeBufferPointer { self.take(name, $0) }
    }
  }
}

extension HeaderBlock {
  /// The fields as given to nghttp2.
  fileprivate var fields: [String: String] {
    self.withUnsafeFields { fields in
      Dictionary(
        uniqueKeysWithValues: fields.map { field in
          func text(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> String {
            String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
          }
          return (text(field.name, field.namelen), text(field.value, field.valuelen))
        })
    }
  }
}
