import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Testing

@Suite("Enumerations")
struct EnumTests {
  /// Every case of the model has its own message value, and converts back; every message value
  /// except UNSPECIFIED stands for a case.
  private func expectPairs<
    Model: CaseIterable & Hashable, Message: ProtobufEnum
  >(
    _: Model.Type, _ send: (Model) -> Message, _ read: (Message) -> Model?
  ) {
    let messages = Model.allCases.map(send)
    #expect(messages.map(read) == Array(Model.allCases))
    #expect(Set(messages.map(\.rawValue)) == Set(Message.allCases.map(\.rawValue)).subtracting([0]))
  }

  @Test("every case converts there and back")
  func all() {
    self.expectPairs(
      NetworkCategory.self, { Connectivity_V1_Category($0) }, { NetworkCategory($0) })
    self.expectPairs(
      ThreeWayCategory.self, { Connectivity_V1_ThreeWayCategory($0) }, { ThreeWayCategory($0) })
    self.expectPairs(Medium.self, { Connectivity_V1_Medium($0) }, { Medium($0) })
    self.expectPairs(
      AddressFamily.self, { Connectivity_V1_AddressFamily($0) }, { AddressFamily($0) })
    self.expectPairs(
      KernelPath.Status.self, { Connectivity_V1_PathStatus($0) }, { KernelPath.Status($0) })
    self.expectPairs(
      KernelPath.Reason.self, { Connectivity_V1_PathReason($0) }, { KernelPath.Reason($0) })
    self.expectPairs(
      Evidence.Source.self, { Connectivity_V1_EvidenceSource($0) }, { Evidence.Source($0) })
    self.expectPairs(
      ChangeCause.Trigger.self, { Connectivity_V1_CauseTrigger($0) }, { ChangeCause.Trigger($0) })
    self.expectPairs(
      Invalidation.Reason.self, { Connectivity_V1_InvalidationReason($0) },
      { Invalidation.Reason($0) })
    self.expectPairs(
      Invalidation.Severity.self, { Connectivity_V1_InvalidationSeverity($0) },
      { Invalidation.Severity($0) })
    self.expectPairs(
      FlowRefusal.Code.self, { Connectivity_V1_RefusalCode($0) }, { FlowRefusal.Code($0) })
    self.expectPairs(
      MobileGeneration.self, { Connectivity_V1_MobileTechnology($0) }, { MobileGeneration($0) })
    self.expectPairs(
      OtherWay.Reason.self, { Connectivity_V1_OtherWayReason($0) }, { OtherWay.Reason($0) })
    self.expectPairs(
      WirelessRole.self, { Connectivity_V1_WirelessRole($0) }, { WirelessRole($0) })
  }

  @Test("an unknown value of a newer connd becomes the nearest safe one", arguments: [0, 99])
  func unknown(number: Int) {
    #expect(NetworkCategory(.init(rawValue: number)) == .unknown)
    #expect(ThreeWayCategory(.init(rawValue: number)) == .unknown)
    #expect(Medium(.init(rawValue: number)) == .unknown)
    #expect(AddressFamily(.init(rawValue: number)) == .ipv4)
    #expect(KernelPath.Status(.init(rawValue: number)) == .unknown)
    #expect(KernelPath.Reason(.init(rawValue: number)) == nil)
    #expect(Evidence.Source(.init(rawValue: number)) == Evidence.Source.none)
    #expect(ChangeCause.Trigger(.init(rawValue: number)) == .kernel)
    #expect(Invalidation.Reason(.init(rawValue: number)) == .categoryChanged)
    #expect(Invalidation.Severity(.init(rawValue: number)) == .advise)
    #expect(FlowRefusal.Code(.init(rawValue: number)) == .invalidArgument)
    #expect(OtherWay.Reason(.init(rawValue: number)) == .noOtherPath)
    #expect(MobileGeneration(.init(rawValue: number)) == nil)
    #expect(WirelessRole(.init(rawValue: number)) == .other)
  }
}
