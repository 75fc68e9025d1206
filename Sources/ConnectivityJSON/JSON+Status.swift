package import Connectivity

// The formats that scripts rely on. The names, order and presence of keys change only with a major
// version.
extension JSON {
  /// Returns the object of `connctl status --json`.
  package static func status(_ snapshot: ConnectivitySnapshot) -> JSON {
    let status = snapshot.status
    return [
      "generation": .number(snapshot.generation),
      "category": .string(status.category.rawValue),
      "threeWay": .string(status.category.threeWay.rawValue),
      "since": .string(snapshot.since.description),
      "flags": .flags(status.flags),
      "interface": .string(status.interface),
      "medium": .string(status.medium.rawValue),
      "expensive": .bool(status.isMetered),
      "constrained": .bool(status.isConstrained),
      "ipv4": .path(status.ipv4),
      "ipv6": .path(status.ipv6),
    ]
  }

  /// Returns the object of `connctl dns --json`.
  package static func dns(_ settings: DNSSettings) -> JSON {
    func servers(_ servers: [DNSSettings.Server]) -> JSON {
      .array(servers.map { .string($0.description) })
    }
    func names(_ names: [String]) -> JSON { .array(names.map { .string($0) }) }
    return [
      "servers": servers(settings.servers),
      "search": names(settings.search),
      "links": .array(
        settings.links.map { link in
          [
            "interface": .string(link.interface), "servers": servers(link.servers),
            "search": names(link.search),
          ]
        }),
    ]
  }

  package static func flags(_ flags: ReachabilityFlags) -> JSON {
    [
      "reachable": .bool(flags.reachable),
      "connectionRequired": .bool(flags.connectionRequired),
      "isWWAN": .bool(flags.isWWAN),
    ]
  }

  /// Returns a path's object. `validation` and `quality` are present only if known, and
  /// `constraintLevel` if programs should save data.
  package static func path(_ path: KernelPath) -> JSON {
    let validation: JSON =
      path.validation == .unknown ? [:] : ["validation": .validation(path.validation)]
    let known = validation.appending(
      path.quality == .unknown ? [:] : ["quality": .string(path.quality.rawValue)])
    let object: JSON = [
      "status": .string(path.status.rawValue),
      "reason": .string(path.reason?.rawValue),
      "interface": .string(path.interface),
      "chain": .array(path.chain.map { .string($0.name) }),
      "medium": .string(path.medium.rawValue),
      "source": .string(path.source?.description),
      "gateway": .string(path.gateway?.description),
      "table": .number(path.table),
      "expensive": .bool(path.isMetered),
      "constrained": .bool(path.isConstrained),
    ]
    return object.appending(known).appending(.constraint(path.constraint))
  }

  /// Returns the object with the key `constraintLevel`, which is empty for no constraint.
  package static func constraint(_ level: ConstraintLevel) -> JSON {
    level == .unconstrained ? [:] : ["constraintLevel": .string(level.rawValue)]
  }

  private static func validation(_ validation: KernelPath.Validation) -> JSON {
    [
      "state": .string(validation.state.rawValue),
      "source": .string(validation.source?.rawValue),
      "portal": .string(validation.portal),
    ]
  }

  /// Returns the object of `connctl path --json`.
  package static func path(_ path: KernelPath, to destination: String) -> JSON {
    let object: JSON = ["destination": .string(destination)]
    return object.appending(.path(path))
  }

  package static func evidence(_ evidence: KernelPath.Evidence?) -> JSON {
    guard let evidence else { return .null }
    return [
      "source": .string(evidence.source.rawValue),
      "value": .string(evidence.value),
      "medium": .string(evidence.medium.rawValue),
    ]
  }
}
