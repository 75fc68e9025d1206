import Connectivity
import ConnectivityJSON
import ConnectivityProtocol

extension JSON {
  /// Returns the object of `connctl why --json`.
  ///
  /// - Parameter router: The router's answer, or `nil` if it was not asked.
  static func diagnosis(
    _ diagnosis: Connectivity_V1_Diagnosis, _ router: RouterProbe.Answer?
  ) throws -> JSON {
    [
      "verdict": .string(DiagnosisVerdict(diagnosis.verdict).rawValue),
      "hosts": .array(diagnosis.hosts.map { .string($0) }),
      "port": .number(diagnosis.hasPort ? diagnosis.port : nil),
      "family": .string(diagnosis.hasFamily ? AddressFamily(diagnosis.family).rawValue : nil),
      "user": .number(diagnosis.hasUser ? diagnosis.user : nil),
      "path": .path(try KernelPath(diagnosis.path)),
      "evidence": .array(diagnosis.evidence.map { .string($0) }),
      "connections": .number(diagnosis.connections),
      "heardHosts": .number(diagnosis.heardHosts),
      "silentHosts": .number(diagnosis.silentHosts),
      "incomplete": .bool(diagnosis.incomplete),
      "router": .string(router?.rawValue),
    ]
  }
}
