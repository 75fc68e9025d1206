package import Connectivity

// The tables (``WireEnum``) of the enums of connectivity.proto.

extension NetworkCategory: ClosestWireEnum {
  /// Clients assume that they are online (K8).
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_Category {
    switch self {
    case .offline: .none
    case .wifi: .wifi
    case .cellular: .cellular
    case .wired: .wired
    case .other: .other
    case .unknown: .unknown
    }
  }
}

extension ThreeWayCategory: ClosestWireEnum {
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_ThreeWayCategory {
    switch self {
    case .offline: .none
    case .wifi: .wifi
    case .cellular: .cellular
    case .unknown: .unknown
    }
  }
}

extension NetworkMedium: ClosestWireEnum {
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_Medium { .init(rawValue: self.traits.number) }
}

extension AddressFamily: ClosestWireEnum {
  package static let unrecognized = Self.ipv4

  package var wireValue: Connectivity_V1_AddressFamily {
    switch self {
    case .ipv4: .ipv4
    case .ipv6: .ipv6
    }
  }
}

extension KernelPath.Status: ClosestWireEnum {
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_PathStatus {
    switch self {
    case .satisfied: .satisfied
    case .requiresConnection: .requiresConnection
    case .unsatisfied: .unsatisfied
    case .unknown: .unknown
    }
  }
}

/// An unknown value means no reason, which is better than a wrong reason.
extension KernelPath.Reason: WireEnum {
  package var wireValue: Connectivity_V1_PathReason {
    switch self {
    case .noRoute: .noRoute
    case .unreachable: .unreachable
    case .prohibited: .prohibited
    case .blackhole: .blackhole
    case .throw: .throw
    case .noCarrier: .noCarrier
    case .dormant: .dormant
    case .linkDown: .linkDown
    case .noSourceAddress: .noSourceAddress
    case .suspended: .suspended
    case .kernelUnavailable: .kernelUnavailable
    case .unsupported: .unsupported
    }
  }
}

extension KernelPath.Evidence.Source: ClosestWireEnum {
  package static let unrecognized = Self.none

  package var wireValue: Connectivity_V1_EvidenceSource {
    switch self {
    case .configuration: .configuration
    case .kind: .kind
    case .hardwareType: .hardwareType
    case .deviceType: .deviceType
    case .phy80211: .phy80211
    case .nl80211: .nl80211
    case .modemManager: .modemManager
    case .driver: .driver
    case .name: .name
    case .none: .none
    }
  }
}

extension ChangeCause.Trigger: ClosestWireEnum {
  package static let unrecognized = Self.kernel

  package var wireValue: Connectivity_V1_CauseTrigger {
    switch self {
    case .link: .link
    case .address: .address
    case .route: .route
    case .rule: .rule
    case .nexthop: .nexthop
    case .start: .start
    case .overrun: .overrun
    case .configuration: .configuration
    case .timer: .timer
    case .kernel: .kernel
    case .neighbour: .neighbour
    case .sleep: .sleep
    case .registration: .registration
    case .dns: .dns
    case .user: .user
    case .modem: .modem
    case .metering: .metering
    case .validation: .validation
    case .quality: .quality
    }
  }
}

extension Invalidation.Reason: ClosestWireEnum {
  /// This reason implies the least.
  package static let unrecognized = Self.categoryChanged

  package var wireValue: Connectivity_V1_InvalidationReason {
    switch self {
    case .sourceAddressLost: .sourceAddressLost
    case .interfaceLost: .interfaceLost
    case .networkChanged: .networkChanged
    case .categoryChanged: .categoryChanged
    case .betterPath: .betterPath
    case .policy: .policy
    case .resumed: .resumed
    case .silent: .silent
    }
  }
}

extension Invalidation.Severity: ClosestWireEnum {
  /// Advising destroys nothing by mistake.
  package static let unrecognized = Self.advise

  package var wireValue: Connectivity_V1_InvalidationSeverity {
    switch self {
    case .destroy: .destroy
    case .drain: .drain
    case .advise: .advise
    }
  }
}

extension ConstraintLevel: ClosestWireEnum {
  package static let unrecognized = Self.constrained

  package var wireValue: Connectivity_V1_ConstraintLevel {
    switch self {
    case .unconstrained: .unspecified
    case .constrained: .constrained
    case .ultra: .ultraConstrained
    }
  }
}

extension ConstraintLevel {
  /// - Parameter isConstrained: The field that a server without levels sets.
  package init(_ level: Connectivity_V1_ConstraintLevel, isConstrained: Bool) {
    self = isConstrained && level == .unspecified ? .constrained : Self(level)
  }
}

extension LinkQuality: ClosestWireEnum {
  /// Messages omit this value.
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_Quality {
    switch self {
    case .unknown: .unspecified
    case .minimal: .minimal
    case .moderate: .moderate
    case .good: .good
    }
  }
}

extension KernelPath.Validation.State: ClosestWireEnum {
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_ValidationState {
    switch self {
    case .unknown: .unknown
    case .portal: .portal
    case .limited: .limited
    case .full: .full
    }
  }
}

extension KernelPath.Validation.Source: ClosestWireEnum {
  package static let unrecognized = Self.networkd

  package var wireValue: Connectivity_V1_ValidationSource {
    switch self {
    case .networkManager: .networkManager
    case .routerAdvertisement: .routerAdvertisement
    case .networkd: .networkd
    }
  }
}

extension OtherWay.Reason: ClosestWireEnum {
  /// The other way is not allowed, whatever the reason.
  package static let unrecognized = Self.noOtherPath

  package var wireValue: Connectivity_V1_OtherWayReason {
    switch self {
    case .bound: .bound
    case .marked: .marked
    case .notGlobal: .notGlobal
    case .noDefaultPath: .noDefaultPath
    case .tunnel: .tunnel
    case .ownRoute: .ownRoute
    case .noOtherPath: .noOtherPath
    case .strictFilter: .strictFilter
    case .roaming: .roaming
    case .constrained: .constrained
    case .expensive: .expensive
    case .switchedOff: .switchedOff
    }
  }
}

extension AttemptOutcome: WireEnum {
  package var wireValue: Connectivity_V1_AttemptOutcome {
    switch self {
    case .contrast: .contrast
    case .ready: .ready
    case .clean: .clean
    case .stalled: .stalled
    }
  }
}

extension PeerQuestion: ClosestWireEnum {
  package static let unrecognized = Self.none

  package var wireValue: Connectivity_V1_FlowQuestion {
    switch self {
    case .none: .unspecified
    case .keepalive: .keepalive
    case .ping: .ping
    }
  }
}

extension FlowRefusal.Code: ClosestWireEnum {
  /// The client must not repeat the request unchanged.
  package static let unrecognized = Self.invalidArgument

  package var wireValue: Connectivity_V1_RefusalCode {
    switch self {
    case .invalidArgument: .invalidArgument
    case .resourceExhausted: .resourceExhausted
    }
  }
}
