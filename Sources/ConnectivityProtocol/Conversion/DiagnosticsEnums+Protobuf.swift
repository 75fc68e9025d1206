package import Connectivity

// The tables (``WireEnum``) of the enums of diagnostics.proto.

extension UnusedReason: ClosestWireEnum {
  package static let unrecognized = Self.noRoute

  package var wireValue: Connectivity_V1_UnusedReason {
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

extension DiagnosisVerdict: ClosestWireEnum {
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_DiagnosisVerdict {
    switch self {
    case .nothingWrong: .nothingWrong
    case .noPath: .noPath
    case .notLetOut: .notLetOut
    case .packetsLost: .packetsLost
    case .nothingAnswers: .nothingAnswers
    case .namesUnresolved: .namesUnresolved
    case .onlyDestination: .onlyDestination
    case .onlyUser: .onlyUser
    case .largePacketsLost: .largePacketsLost
    case .unknown: .unknown
    }
  }
}

extension CostEvidence.Source: ClosestWireEnum {
  package static let unrecognized = Self.none

  package var wireValue: Connectivity_V1_CostSource {
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

extension Metering: ClosestWireEnum {
  package static let unrecognized = Self.unknown

  package var wireValue: Connectivity_V1_Metering {
    switch self {
    case .unknown: .unknown
    case .yes: .yes
    case .no: .no
    case .guessYes: .guessYes
    case .guessNo: .guessNo
    }
  }
}

extension LinkState: ClosestWireEnum {
  package static let unrecognized = Self.dormant

  package var wireValue: Connectivity_V1_LinkState {
    switch self {
    case .down: .down
    case .noCarrier: .noCarrier
    case .dormant: .dormant
    case .up: .up
    }
  }
}

extension Via.Kind: WireEnum {
  package var wireValue: Connectivity_V1_DeviceKind {
    switch self {
    case .phone: .phone
    }
  }
}

extension MobileGeneration: WireEnum {
  package var wireValue: Connectivity_V1_MobileTechnology {
    switch self {
    case .second: .mobileTechnology2G
    case .third: .mobileTechnology3G
    case .fourth: .mobileTechnology4G
    case .fifth: .mobileTechnology5G
    }
  }
}

extension WirelessRole: ClosestWireEnum {
  package static let unrecognized = Self.other

  package var wireValue: Connectivity_V1_WirelessRole {
    switch self {
    case .station: .station
    case .accessPoint: .accessPoint
    case .adHoc: .adHoc
    case .mesh: .mesh
    case .p2pClient: .p2PClient
    case .p2pGroupOwner: .p2PGroupOwner
    case .monitor: .monitor
    case .other: .other
    }
  }
}

extension WirelessSecurity.Method: ClosestWireEnum {
  package static let unrecognized = Self.other

  package var wireValue: Connectivity_V1_WirelessSecurity {
    switch self {
    case .open: .open
    case .wep: .wep
    case .personal: .personal
    case .enterprise: .enterprise
    case .other: .other
    }
  }
}
