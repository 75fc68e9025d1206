import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import TestKit
import Testing

@Suite("Enumerations")
struct EnumTests {
  private static let types: [any WireEnum.Type] = [
    NetworkCategory.self, ThreeWayCategory.self, NetworkMedium.self, AddressFamily.self,
    KernelPath.Status.self, KernelPath.Reason.self, KernelPath.Evidence.Source.self,
    ChangeCause.Trigger.self, Invalidation.Reason.self, Invalidation.Severity.self,
    LinkQuality.self, KernelPath.Validation.State.self, KernelPath.Validation.Source.self,
    OtherWay.Reason.self,
    AttemptOutcome.self, PeerQuestion.self, FlowRefusal.Code.self, UnusedReason.self,
    DiagnosisVerdict.self, ConstraintLevel.self,
    CostEvidence.Source.self, Metering.self, LinkState.self, Via.Kind.self,
    MobileGeneration.self, WirelessRole.self, WirelessSecurity.Method.self,
    StatusEvent.Kind.self,
  ]

  @Test("every enum with a table is compared")
  func all() throws {
    let tables = try Command.run([
      "grep", "--recursive", "--no-filename", "--only-matching", "--perl-regexp",
      #"extension \K[\w.]+(?=: (Closest)?WireEnum)"#, Checkout.path("Sources"),
    ])
    #expect(
      tables.split(separator: "\n").map(String.init).sorted()
        == Self.types.map { String(reflecting: $0).split(separator: ".").dropFirst() }
        .map { $0.joined(separator: ".") }.sorted())
  }

  @Test("the table of an enum has the words and numbers of the .proto file, and its unknown value")
  func tables() throws {
    let declarations = try ["connectivity", "diagnostics"].flatMap(EnumDeclaration.all)
    for type in Self.types { try self.compare(type, declarations) }
  }

  private func compare<Model: WireEnum>(
    _ type: Model.Type, _ declarations: [EnumDeclaration]
  ) throws {
    let name = "\(Model.WireValue.self)".replacing("Connectivity_V1_", with: "")
    let declaration = try #require(declarations.first { $0.name == name })
    // A case without a number is not sent.
    let sent = Model.allCases.filter { $0.wireValue.rawValue != 0 }
    let numbers = sent.map { (word($0), $0.wireValue.rawValue) }
    #expect(Dictionary(uniqueKeysWithValues: numbers) == declaration.numbers, "\(Model.self)")
    for model in Model.allCases { #expect(Model(known: model.wireValue) == model) }
    for number in [99, -1] { #expect(Model(known: .init(rawValue: number)) == nil) }
    guard let closest = Model.self as? any ClosestWireEnum.Type else {
      #expect(declaration.unknown == nil, "\(Model.self)")
      return
    }
    self.compare(closest, unknown: declaration.unknown)
  }

  private func compare<Model: ClosestWireEnum>(_ type: Model.Type, unknown: String?) {
    #expect(Model(.init(rawValue: 99)) == Model.unrecognized)
    guard let unknown, unknown != "unspecified" else { return }
    #expect(word(Model.unrecognized) == unknown, "\(Model.self)")
  }

  @Test("an unknown value of a newer connd becomes the nearest safe one", arguments: [0, 99])
  func unknown(number: Int) {
    #expect(NetworkCategory(.init(rawValue: number)) == .unknown)
    #expect(ThreeWayCategory(.init(rawValue: number)) == .unknown)
    #expect(NetworkMedium(.init(rawValue: number)) == .unknown)
    #expect(AddressFamily(.init(rawValue: number)) == .ipv4)
    #expect(KernelPath.Status(.init(rawValue: number)) == .unknown)
    #expect(KernelPath.Reason(known: .init(rawValue: number)) == nil)
    #expect(KernelPath.Evidence.Source(.init(rawValue: number)) == KernelPath.Evidence.Source.none)
    #expect(ChangeCause.Trigger(.init(rawValue: number)) == .kernel)
    #expect(Invalidation.Reason(.init(rawValue: number)) == .categoryChanged)
    #expect(Invalidation.Severity(.init(rawValue: number)) == .advise)
    #expect(LinkQuality(.init(rawValue: number)) == .unknown)
    #expect(ConstraintLevel(.init(rawValue: 99)) == .constrained)
    #expect(KernelPath.Validation.State(.init(rawValue: number)) == .unknown)
    #expect(KernelPath.Validation.Source(.init(rawValue: number)) == .networkd)
    #expect(FlowRefusal.Code(.init(rawValue: number)) == .invalidArgument)
    #expect(OtherWay.Reason(.init(rawValue: number)) == .noOtherPath)
    #expect(PeerQuestion(.init(rawValue: number)) == PeerQuestion.none)
    #expect(AttemptOutcome(known: .init(rawValue: number)) == nil)
    #expect(UnusedReason(.init(rawValue: number)) == .noRoute)
    #expect(CostEvidence.Source(.init(rawValue: number)) == CostEvidence.Source.none)
    #expect(Metering(.init(rawValue: number)) == .unknown)
    #expect(LinkState(.init(rawValue: number)) == .dormant)
    #expect(Via.Kind(known: .init(rawValue: number)) == nil)
    #expect(MobileGeneration(known: .init(rawValue: number)) == nil)
    #expect(WirelessRole(.init(rawValue: number)) == .other)
    #expect(WirelessSecurity.Method(.init(rawValue: number)) == .other)
  }
}

/// An enum of a .proto file. The names of its values lack the enum's name, underscores and case.
private struct EnumDeclaration {
  var name: String
  var numbers: [String: Int]
  /// The value that its comment names for unknown ones, or `nil` if it names none.
  var unknown: String?

  /// Reads the enums of a file, except values that are not specified.
  static func all(in file: String) throws -> [Self] {
    let path = Checkout.path("Sources/ConnectivityProtocol/Protos/connectivity/v1/\(file).proto")
    var all: [Self] = []
    var comment = ""
    for line in try Command.run(["cat", path]).split(separator: "\n") {
      if line.hasPrefix("// ") {
        comment += line.dropFirst(2)
      } else if let start = line.wholeMatch(of: /enum (\w+) \{/) {
        let unknown = comment.firstMatch(of: /reats? an unknown value as ([A-Z0-9_]+)\b/)?.1
        all.append(
          Self(name: String(start.1), numbers: [:], unknown: unknown.map { plain(String($0)) }))
      } else if let value = line.wholeMatch(of: /\ +(\w+) = (\d+);/), let last = all.indices.last {
        let name = plain(String(value.1)).dropFirst(all[last].name.count)
        if let number = Int(value.2), number != 0 { all[last].numbers[String(name)] = number }
      }
      if !line.hasPrefix("//") { comment = "" }
    }
    return all
  }
}

/// Returns a name without what differs between Swift and protobuf.
private func plain(_ name: String) -> String { name.lowercased().filter { $0 != "_" } }

/// Returns the word of a case: its raw value, or its name.
private func word(_ model: some WireEnum) -> String {
  plain((model as? any RawRepresentable)?.rawValue as? String ?? "\(model)")
}
