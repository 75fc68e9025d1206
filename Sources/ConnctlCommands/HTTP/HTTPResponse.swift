import Connectivity
import Glibc

/// The reason why a request gets no metrics.
struct HTTPRefusal: Error, Equatable {
  /// The status of the response, such as `404 Not Found`.
  var status: String
  /// The reason and what to do, for the body.
  var advice: String
  var allowedMethods: String?

  static func malformed(_ advice: String) -> Self {
    Self(status: "400 Bad Request", advice: advice)
  }

  static let otherPath = Self(status: "404 Not Found", advice: "the metrics are at /metrics")
  static let otherMethod = Self(
    status: "405 Method Not Allowed", advice: "the metrics answer GET and HEAD",
    allowedMethods: "GET, HEAD")
  static let late = Self(
    status: "408 Request Timeout", advice: "the request did not end within 5 s")
  static let otherHost = Self(
    status: "421 Misdirected Request",
    advice:
      "the host is neither an address nor localhost nor a --host of “connctl metrics --http”")
  static let tooLarge = Self(
    status: "431 Request Header Fields Too Large", advice: "the request is longer than 8192 bytes")
  static let otherVersion = Self(
    status: "505 HTTP Version Not Supported", advice: "only HTTP/1.0 and HTTP/1.1 are supported")

  static func withoutConnd(_ advice: String) -> Self {
    Self(status: "503 Service Unavailable", advice: advice)
  }
}

/// The response to the only request of a connection.
struct HTTPResponse: Equatable {
  var status: String
  var contentType: String
  var body: String
  var allowedMethods: String?

  init(_ metrics: Metrics, as format: Metrics.Format) {
    self.status = "200 OK"
    self.contentType = format.contentType
    self.body = metrics.text
  }

  init(_ refusal: HTTPRefusal) {
    self.status = refusal.status
    self.contentType = "text/plain; charset=utf-8"
    self.body = refusal.advice + "\n"
    self.allowedMethods = refusal.allowedMethods
  }

  /// Returns the text to send.
  func text(at time: WallTime, withBody: Bool) -> String {
    let fields = [
      "HTTP/1.1 \(self.status)", "Date: \(time.dateOfHTTP)", "Content-Type: \(self.contentType)",
      "Content-Length: \(self.body.utf8.count)",
    ]
    return
      (fields + (self.allowedMethods.map { ["Allow: \($0)"] } ?? []) + [
        "Connection: close", "", withBody ? self.body : "",
      ]).joined(separator: "\r\n")
  }
}

extension WallTime {
  /// The time as `Sat, 21 Nov 2026 01:25:00 GMT`.
  fileprivate var dateOfHTTP: String {
    // strftime(3) would use the locale's names.
    let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    let months = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    var seconds = time_t(self.microseconds / 1_000_000)
    var date = tm()
    gmtime_r(&seconds, &date)
    func padded(_ number: CInt) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let day =
      "\(days[Int(date.tm_wday)]), \(padded(date.tm_mday)) \(months[Int(date.tm_mon)]) \(Int(date.tm_year) + 1900)"
    return "\(day) \(padded(date.tm_hour)):\(padded(date.tm_min)):\(padded(date.tm_sec)) GMT"
  }
}
