internal import Connectivity

/// An enum whose values have numbers in connd's messages.
protocol Numbered: Equatable, Sendable {
  /// The values in the order of their numbers, which begin with 1.
  static var numbered: [Self] { get }
}

extension Numbered {
  /// Returns the value with a number, or `nil` for one of a newer connd.
  init?(number: Int32?) {
    guard let number, Self.numbered.indices.contains(Int(number) - 1) else { return nil }
    self = Self.numbered[Int(number) - 1]
  }

  /// Its number, or 0 without one.
  var number: UInt64 { Self.numbered.firstIndex(of: self).map { UInt64($0) + 1 } ?? 0 }
}

extension StatusEvent.Kind: Numbered {
  static let numbered: [Self] = [.transition, .path, .invalidation, .dns]
}

extension NetworkCategory: Numbered {
  static let numbered: [Self] = [.none, .wifi, .cellular, .wired, .other, .unknown]
}

extension Medium: Numbered {
  static let numbered = Self.allCases.sorted { $0.traits.number < $1.traits.number }
}

extension AddressFamily: Numbered {
  static let numbered: [Self] = [.ipv4, .ipv6]
}

extension KernelPath.Status: Numbered {
  static let numbered: [Self] = [.satisfied, .requiresConnection, .unsatisfied, .unknown]
}

extension KernelPath.Reason: Numbered {
  static let numbered: [Self] = [
    .noRoute, .unreachable, .prohibited, .blackhole, .throw, .noCarrier, .dormant, .linkDown,
    .noSourceAddress, .suspended, .kernelUnavailable, .unsupported,
  ]
}

extension Evidence.Source: Numbered {
  static let numbered: [Self] = [
    .configuration, .kind, .hardwareType, .deviceType, .phy80211, .nl80211, .modemManager, .driver,
    .name, .none,
  ]
}

extension ChangeCause.Trigger: Numbered {
  static let numbered: [Self] = [
    .link, .address, .route, .rule, .nexthop, .start, .overrun, .configuration, .timer, .kernel,
    .neighbour, .sleep, .registration, .dns, .user, .modem, .metering,
    .validation, .quality,
  ]
}

extension LinkQuality: Numbered {
  static let numbered: [Self] = [.minimal, .moderate, .good]
}

extension Validation.State: Numbered {
  static let numbered: [Self] = [.unknown, .portal, .limited, .full]
}

extension Validation.Source: Numbered {
  static let numbered: [Self] = [.networkManager, .routerAdvertisement, .networkd]
}

extension Invalidation.Reason: Numbered {
  static let numbered: [Self] = [
    .sourceAddressLost, .interfaceLost, .networkChanged, .categoryChanged, .betterPath, .policy,
    .resumed, .silent,
  ]
}

extension Invalidation.Severity: Numbered {
  static let numbered: [Self] = [.destroy, .drain, .advise]
}
