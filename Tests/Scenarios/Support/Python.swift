import TestKit
import Testing

/// Programs in Python, with stubs generated from the .proto by Python's own tools.
enum Python {
  private static let environment = Result { try Programs.made(by: "Tests/Programs/python/setup") }

  /// - Parameter script: its path in the checkout.
  static func start(
    _ script: String, _ arguments: [String], in namespace: NetworkNamespace,
    environment variables: [String: String] = [:]
  ) throws -> RunningCommand {
    try self.run(Checkout.path(script), arguments, in: namespace, environment: variables)
  }

  /// - Parameter path: the script's path.
  static func run(
    _ path: String, _ arguments: [String], in namespace: NetworkNamespace,
    environment variables: [String: String] = [:]
  ) throws -> RunningCommand {
    let environment = try self.environment.get()
    return try namespace.spawn(
      ["\(environment)/bin/python", "-B", path] + arguments,
      environment: variables.merging(["PYTHONPATH": "\(environment)/stubs"]) { $1 })
  }

  /// The words of a command that runs a script which needs no stubs.
  static func path(_ script: String) throws -> [String] {
    ["\(try self.environment.get())/bin/python", "-B", Checkout.path(script)]
  }
}

extension Laboratory {
  /// Starts a check of a client in Tests/Programs/python, beside connd.
  func python(_ client: String, _ check: String) throws -> RunningCommand {
    try Python.start(
      "Tests/Programs/python/\(client)", [self.socket, check], in: self.namespace)
  }
}

extension RunningCommand {
  /// Waits for its end, and checks that it succeeded.
  func expectSuccess(
    within deadline: Duration = .seconds(60), sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let status = try self.wait(within: deadline)
    #expect(status == 0, "\(self.standardError)", sourceLocation: sourceLocation)
  }
}
