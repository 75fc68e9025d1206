import Connectivity
import ConnectivityRules

// The recorded facts. DNS settings are not among them, because their files are recorded.

extension RecordedFacts {
  /// - Returns: `nil` for DNS settings.
  init?(_ update: FactUpdate, afterLinks: Bool) {
    self.init()
    self.afterLinks = afterLinks
    switch update {
    case .dns: return nil
    case .modems(let links):
      self.modems.links = links.sorted { $0.key < $1.key }.map { Modem($0.key, $0.value) }
    case .metering(let reason):
      self.metering = .with {
        $0.manager = reason.manager.sorted { $0.key < $1.key }.map { name, state in
          .with {
            $0.link = name
            $0.state = state.rawValue
          }
        }
        $0.phones = reason.phones.sorted()
      }
    case .checks(let checks):
      self.checks.links = checks.sorted { $0.key < $1.key }.map { name, checks in
        .with {
          $0.link = name
          $0.ipv4 = checks.ipv4?.rawValue ?? ""
          $0.ipv6 = checks.ipv6?.rawValue ?? ""
        }
      }
    case .portals(let portals):
      self.portals.links = portals.sorted { $0.key < $1.key }.map { name, portal in
        .with {
          $0.link = name
          $0.portal = portal
        }
      }
    case .advertisement(let advertisement):
      self.advertisement = .with {
        $0.link = advertisement.link
        $0.portal = advertisement.portal
      }
    }
  }

  /// The facts, without links in an unknown state, or `nil` if the facts have an unknown kind.
  var update: FactUpdate? {
    switch self.kind {
    case .modems(let modems)?: .modems(Self.byName(modems.links) { ($0.link, $0.modem) })
    case .metering(let metering)?:
      .metering(
        MeteringReports(
          manager: Self.byName(metering.manager) {
            ($0.link, Connectivity.Metering(rawValue: $0.state))
          },
          phones: Set(metering.phones)))
    case .checks(let checks)?:
      .checks(
        Self.byName(checks.links) {
          (
            $0.link,
            ConnectivityChecks(ipv4: .init(rawValue: $0.ipv4), ipv6: .init(rawValue: $0.ipv6))
          )
        })
    case .portals(let portals)?: .portals(Self.byName(portals.links) { ($0.link, $0.portal) })
    case .advertisement(let advertisement)?:
      .advertisement(
        PortalAdvertisement(link: advertisement.link, portal: advertisement.portal))
    case nil: nil
    }
  }

  private static func byName<Element, Value>(
    _ elements: [Element], _ entry: (Element) -> (String, Value?)
  ) -> [String: Value] {
    let entries = elements.map(entry).compactMap { name, value in value.map { (name, $0) } }
    return Dictionary(entries) { _, last in last }
  }
}

extension RecordedFacts.Modem {
  fileprivate init(_ name: String, _ link: ModemLink) {
    self.init()
    self.link = name
    (self.isConnected, self.isSuspended) = (link.isConnected, link.isSuspended)
    self.generation = link.generation?.rawValue ?? ""
    self.isRoaming = link.isRoaming
    if let mobileOperator = link.mobileOperator {
      self.mobileOperator.code = mobileOperator.code
      self.mobileOperator.name = mobileOperator.name
    }
  }

  fileprivate var modem: ModemLink {
    ModemLink(
      isConnected: self.isConnected, isSuspended: self.isSuspended,
      generation: MobileGeneration(rawValue: self.generation), isRoaming: self.isRoaming,
      mobileOperator: self.hasMobileOperator
        ? MobileOperator(code: self.mobileOperator.code, name: self.mobileOperator.name) : nil)
  }
}
