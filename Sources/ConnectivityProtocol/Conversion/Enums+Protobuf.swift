// An unknown value comes from a newer connd. It is read as the nearest value that promises nothing,
// so that an older client keeps working.
public import Connectivity

extension Connectivity_V1_Category {
  public init(_ model: NetworkCategory) {
    switch model {
    case .none: self = .none
    case .wifi: self = .wifi
    case .cellular: self = .cellular
    case .wired: self = .wired
    case .other: self = .other
    case .unknown: self = .unknown
    }
  }
}

extension NetworkCategory {
  /// `unknown` for an unknown value: assume to be online (K8).
  public init(_ message: Connectivity_V1_Category) {
    self = Self.allCases.first { Connectivity_V1_Category($0) == message } ?? .unknown
  }
}

extension Connectivity_V1_ThreeWayCategory {
  public init(_ model: ThreeWayCategory) {
    switch model {
    case .none: self = .none
    case .wifi: self = .wifi
    case .cellular: self = .cellular
    case .unknown: self = .unknown
    }
  }
}

extension ThreeWayCategory {
  /// `unknown` for an unknown value.
  public init(_ message: Connectivity_V1_ThreeWayCategory) {
    self = Self.allCases.first { Connectivity_V1_ThreeWayCategory($0) == message } ?? .unknown
  }
}

extension Connectivity_V1_Medium {
  public init(_ model: Medium) {
    self.init(rawValue: model.traits.number)
  }
}

extension Medium {
  /// `unknown` for an unknown value.
  public init(_ message: Connectivity_V1_Medium) {
    self = Self.allCases.first { Connectivity_V1_Medium($0) == message } ?? .unknown
  }
}

extension Connectivity_V1_AddressFamily {
  public init(_ model: AddressFamily) {
    switch model {
    case .ipv4: self = .ipv4
    case .ipv6: self = .ipv6
    }
  }
}

extension AddressFamily {
  /// `ipv4` for an unknown value.
  public init(_ message: Connectivity_V1_AddressFamily) {
    self = Self.allCases.first { Connectivity_V1_AddressFamily($0) == message } ?? .ipv4
  }
}

extension Connectivity_V1_PathStatus {
  public init(_ model: KernelPath.Status) {
    switch model {
    case .satisfied: self = .satisfied
    case .requiresConnection: self = .requiresConnection
    case .unsatisfied: self = .unsatisfied
    case .unknown: self = .unknown
    }
  }
}

extension KernelPath.Status {
  /// `unknown` for an unknown value.
  public init(_ message: Connectivity_V1_PathStatus) {
    self = Self.allCases.first { Connectivity_V1_PathStatus($0) == message } ?? .unknown
  }
}

extension Connectivity_V1_EvidenceSource {
  public init(_ model: Evidence.Source) {
    switch model {
    case .configuration: self = .configuration
    case .kind: self = .kind
    case .hardwareType: self = .hardwareType
    case .deviceType: self = .deviceType
    case .phy80211: self = .phy80211
    case .nl80211: self = .nl80211
    case .modemManager: self = .modemManager
    case .driver: self = .driver
    case .name: self = .name
    case .none: self = .none
    }
  }
}

extension Evidence.Source {
  /// `none` for an unknown value.
  public init(_ message: Connectivity_V1_EvidenceSource) {
    self = Self.allCases.first { Connectivity_V1_EvidenceSource($0) == message } ?? .none
  }
}

extension Connectivity_V1_CauseTrigger {
  public init(_ model: ChangeCause.Trigger) {
    switch model {
    case .link: self = .link
    case .address: self = .address
    case .route: self = .route
    case .rule: self = .rule
    case .nexthop: self = .nexthop
    case .start: self = .start
    case .overrun: self = .overrun
    case .configuration: self = .configuration
    case .timer: self = .timer
    case .kernel: self = .kernel
    case .neighbour: self = .neighbour
    case .sleep: self = .sleep
    case .registration: self = .registration
    case .dns: self = .dns
    case .user: self = .user
    case .modem: self = .modem
    case .metering: self = .metering
    case .validation: self = .validation
    case .quality: self = .quality
    }
  }
}

extension ChangeCause.Trigger {
  /// `kernel` for an unknown value.
  public init(_ message: Connectivity_V1_CauseTrigger) {
    self = Self.allCases.first { Connectivity_V1_CauseTrigger($0) == message } ?? .kernel
  }
}

extension Connectivity_V1_PathReason {
  public init(_ model: KernelPath.Reason) {
    switch model {
    case .noRoute: self = .noRoute
    case .unreachable: self = .unreachable
    case .prohibited: self = .prohibited
    case .blackhole: self = .blackhole
    case .throw: self = .throw
    case .noCarrier: self = .noCarrier
    case .dormant: self = .dormant
    case .suspended: self = .suspended
    case .linkDown: self = .linkDown
    case .noSourceAddress: self = .noSourceAddress
    case .kernelUnavailable: self = .kernelUnavailable
    case .unsupported: self = .unsupported
    }
  }
}

extension KernelPath.Reason {
  /// `nil` for an unknown value, because no reason is better than a wrong one.
  public init?(_ message: Connectivity_V1_PathReason) {
    guard let value = Self.allCases.first(where: { Connectivity_V1_PathReason($0) == message })
    else { return nil }
    self = value
  }
}

extension Connectivity_V1_InvalidationReason {
  public init(_ model: Invalidation.Reason) {
    switch model {
    case .sourceAddressLost: self = .sourceAddressLost
    case .interfaceLost: self = .interfaceLost
    case .networkChanged: self = .networkChanged
    case .categoryChanged: self = .categoryChanged
    case .betterPath: self = .betterPath
    case .policy: self = .policy
    case .resumed: self = .resumed
    case .silent: self = .silent
    }
  }
}

extension Invalidation.Reason {
  /// `categoryChanged` for an unknown value, because this reason implies the least.
  public init(_ message: Connectivity_V1_InvalidationReason) {
    self =
      Self.allCases.first { Connectivity_V1_InvalidationReason($0) == message } ?? .categoryChanged
  }
}

extension Connectivity_V1_InvalidationSeverity {
  public init(_ model: Invalidation.Severity) {
    switch model {
    case .destroy: self = .destroy
    case .drain: self = .drain
    case .advise: self = .advise
    }
  }
}

extension Invalidation.Severity {
  /// `advise` for an unknown value, so that nothing is destroyed by mistake.
  public init(_ message: Connectivity_V1_InvalidationSeverity) {
    self = Self.allCases.first { Connectivity_V1_InvalidationSeverity($0) == message } ?? .advise
  }
}

extension Connectivity_V1_RefusalCode {
  package init(_ model: FlowRefusal.Code) {
    switch model {
    case .invalidArgument: self = .invalidArgument
    case .resourceExhausted: self = .resourceExhausted
    }
  }
}

extension FlowRefusal.Code {
  /// `invalidArgument` for an unknown value: the request must not be repeated unchanged.
  package init(_ message: Connectivity_V1_RefusalCode) {
    self = Self.allCases.first { Connectivity_V1_RefusalCode($0) == message } ?? .invalidArgument
  }
}

extension Connectivity_V1_MobileTechnology {
  package init(_ model: MobileGeneration) {
    switch model {
    case .second: self = .mobileTechnology2G
    case .third: self = .mobileTechnology3G
    case .fourth: self = .mobileTechnology4G
    case .fifth: self = .mobileTechnology5G
    }
  }
}

extension MobileGeneration {
  /// `nil` for an unknown value.
  package init?(_ message: Connectivity_V1_MobileTechnology) {
    guard
      let value = Self.allCases.first(where: { Connectivity_V1_MobileTechnology($0) == message })
    else { return nil }
    self = value
  }
}

extension Connectivity_V1_ValidationState {
  public init(_ model: Validation.State) {
    switch model {
    case .unknown: self = .unknown
    case .portal: self = .portal
    case .limited: self = .limited
    case .full: self = .full
    }
  }
}

extension Validation.State {
  /// `unknown` for an unknown value.
  public init(_ message: Connectivity_V1_ValidationState) {
    self = Self.allCases.first { Connectivity_V1_ValidationState($0) == message } ?? .unknown
  }
}

extension Connectivity_V1_ValidationSource {
  public init(_ model: Validation.Source) {
    switch model {
    case .networkManager: self = .networkManager
    case .routerAdvertisement: self = .routerAdvertisement
    case .networkd: self = .networkd
    }
  }
}

extension Validation.Source {
  /// `networkd` for an unknown value.
  public init(_ message: Connectivity_V1_ValidationSource) {
    self = Self.allCases.first { Connectivity_V1_ValidationSource($0) == message } ?? .networkd
  }
}
