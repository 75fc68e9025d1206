package import Connectivity

/// A value of the model that has one value of the protocol.
package protocol WireValue: CaseIterable, Equatable {
  associatedtype Message: Equatable
  var message: Message { get }
}

extension WireValue {
  /// Returns `nil` for an unknown value, which comes from a newer connd.
  package init?(_ message: Message) {
    guard let value = Self.allCases.first(where: { $0.message == message }) else { return nil }
    self = value
  }
}

extension LinkState: WireValue {
  package var message: Connectivity_V1_LinkState {
    switch self {
    case .down: .down
    case .noCarrier: .noCarrier
    case .dormant: .dormant
    case .up: .up
    }
  }
}

extension Via.Kind: WireValue {
  package var message: Connectivity_V1_DeviceKind {
    switch self {
    case .phone: .phone
    }
  }
}

extension UnusedReason: WireValue {
  package var message: Connectivity_V1_UnusedReason {
    switch self {
    case .down: .down
    case .noCarrier: .noCarrier
    case .dormant: .dormant
    case .port: .port
    case .noAddress: .noAddress
    case .noRoute: .noRoute
    case .laterRule: .laterRule
    case .lessSpecific: .lessSpecific
    case .higherMetric: .higherMetric
    case .equalMetric: .equalMetric
    case .discarded: .discarded
    }
  }
}

extension Metering: WireValue {
  package var message: Connectivity_V1_Metering {
    switch self {
    case .unknown: .unknown
    case .yes: .yes
    case .no: .no
    case .guessYes: .guessYes
    case .guessNo: .guessNo
    }
  }
}

extension CostEvidence.Source: WireValue {
  package var message: Connectivity_V1_CostSource {
    switch self {
    case .configuration: .configuration
    case .user: .user
    case .networkManager: .networkManager
    case .medium: .medium
    case .accessPoint: .accessPoint
    case .driver: .driver
    case .dhcp: .dhcp
    case .lastKnown: .lastKnown
    case .none: .none
    }
  }
}

extension WirelessSecurity.Method: WireValue {
  package var message: Connectivity_V1_WirelessSecurity {
    switch self {
    case .open: .open
    case .wep: .wep
    case .personal: .personal
    case .enterprise: .enterprise
    case .other: .other
    }
  }
}
