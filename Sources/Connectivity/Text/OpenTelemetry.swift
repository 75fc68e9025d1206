extension KernelPath {
  /// The path as span attributes, named as in OpenTelemetry's semantic conventions:
  /// `network.connection.type` (`wifi`, `wired`, `cell`, `unavailable` or `unknown`) and, if there
  /// is a link, `network.interface.name`.
  public var openTelemetryAttributes: [String: String] {
    var attributes = ["network.connection.type": self.openTelemetryType]
    attributes["network.interface.name"] = self.interface
    return attributes
  }

  private var openTelemetryType: String {
    if self.status == .unknown { return "unknown" }
    return switch NetworkCategory(ReachabilityFlags(self), medium: self.medium) {
    case .offline: "unavailable"
    case .wifi: "wifi"
    case .cellular: "cell"
    case .wired: "wired"
    case .other, .unknown: "unknown"
    }
  }
}
