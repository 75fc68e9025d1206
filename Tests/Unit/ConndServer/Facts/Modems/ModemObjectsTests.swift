import Connectivity
import Systemd
import Testing

@testable import ConndServer

@Suite("ModemManager's objects")
struct ModemObjectsTests {
  private static let modem = "/org/freedesktop/ModemManager1/Modem/0"
  private static let bearer = "/org/freedesktop/ModemManager1/Bearer/0"

  /// A modem with one bearer, and the properties of each.
  private func objects(
    _ modem: [String: BusValue] = [:], network: [String: BusValue] = [:],
    bearer: [String: BusValue] = ["Interface": .text("wwan0"), "Connected": .flag(true)]
  ) -> ModemObjects {
    var objects = ModemObjects()
    let bearers: [String: BusValue] = ["Bearers": .texts([Self.bearer])]
    objects.update(
      Self.modem, BusProperties(ModemObjects.modem, bearers.merging(modem) { $1 }))
    objects.update(Self.modem, BusProperties(ModemObjects.network, network))
    objects.update(Self.bearer, BusProperties(ModemObjects.bearer, bearer))
    return objects
  }

  @Test(
    "the newest technology is shown",
    arguments: [
      (UInt32(0), nil), (1 << 0, nil), (1 << 1, .second), (1 << 4, .second), (1 << 5, .third),
      (1 << 9, .third), (1 << 10, .second), (1 << 13, .third), (1 << 14, .fourth),
      (1 << 15, .fifth), (1 << 14 | 1 << 15, .fifth), (1 << 17, .fourth), (1 << 18, nil),
      (1 << 5 | 1 << 3, .third), (.max, .fifth),
    ] as [(UInt32, MobileGeneration?)])
  func technology(mask: UInt32, generation: MobileGeneration?) {
    #expect(MobileGeneration(accessTechnologies: mask) == generation)
    let objects = self.objects(["AccessTechnologies": .number(Int64(mask))])
    #expect(objects.links["wwan0"]?.generation == generation)
  }

  @Test(
    "the network operator is identified by its code",
    arguments: [
      (["OperatorCode": .text("26201"), "OperatorName": .text("Example")], "26201 Example"),
      (["OperatorCode": .text("310410")], "310410 "), (["OperatorName": .text("Example")], nil),
      (["OperatorCode": .text("")], nil), (["OperatorCode": .text("2620")], nil),
      (["OperatorCode": .text("2620a")], nil), (["OperatorCode": .number(26201)], nil),
      (["OperatorCode": .text("26201"), "OperatorName": .flag(true)], "26201 "),
    ] as [([String: BusValue], String?)])
  func mobileOperator(network: [String: BusValue], words: String?) {
    let known = self.objects(network: network).links["wwan0"]?.mobileOperator
    #expect(known.map { "\($0.code) \($0.name)" } == words)
  }

  @Test(
    "roaming follows the registration state, in all its variants",
    arguments: [(0, false), (1, false), (5, true), (6, false), (7, true), (9, false), (10, true)])
  func roaming(state: Int64, isRoaming: Bool) {
    let objects = self.objects(network: ["RegistrationState": .number(state)])
    #expect(objects.links["wwan0"]?.isRoaming == isRoaming)
  }

  @Test(
    "T3 a modem's signal quality is known by its link, and changes nothing else about that link",
    arguments: [
      (.flaggedNumber(67, true), 67), (.flaggedNumber(0, true), 0),
      (.flaggedNumber(100, false), 100), (.flaggedNumber(0, false), nil),
      (.flaggedNumber(101, true), nil), (.flaggedNumber(1 << 31, true), nil), (.number(67), nil),
      (.other, nil), (nil, nil),
    ] as [(BusValue?, UInt32?)])
  func signalQuality(value: BusValue?, percent: UInt32?) {
    let objects = self.objects(value.map { ["SignalQuality": $0] } ?? [:])
    #expect(objects.signalQualities["wwan0"] == percent)
    #expect(objects.links == self.objects().links)
    var lost = self.objects(["SignalQuality": .flaggedNumber(50, true)])
    lost.update(Self.modem, BusProperties(ModemObjects.modem, ["SignalQuality": value ?? .other]))
    #expect(lost.signalQualities["wwan0"] == percent, "what is said last")
  }

  @Test(
    "a bearer names its link, and says whether that is connected",
    arguments: [
      ([:], [:]),
      (["Interface": .text("ppp0")], ["ppp0": ModemLink(isConnected: false)]),
      (["Interface": .text(""), "Connected": .flag(true)], [:]),
      (["Interface": .text("ppp0"), "Connected": .flag(true)], ["ppp0": ModemLink()]),
      (
        ["Interface": .text("ppp0"), "Connected": .flag(true), "Suspended": .flag(true)],
        ["ppp0": ModemLink(isSuspended: true)]
      ),
      (
        ["Interface": .text("ppp0"), "Suspended": .flag(true)],
        ["ppp0": ModemLink(isConnected: false)]
      ),
    ] as [([String: BusValue], [String: ModemLink])])
  func bearers(properties: [String: BusValue], links: [String: ModemLink]) {
    #expect(self.objects(bearer: properties).links == links)
  }

  @Test("D8 a value of an unexpected type is unknown, and loses nothing else")
  func otherTypes() {
    let objects = self.objects(
      ["AccessTechnologies": .text("lte")], network: ["RegistrationState": .flag(true)],
      bearer: [
        "Interface": .text("wwan0"), "Connected": .number(1), "Suspended": .other,
      ])
    #expect(objects.links == ["wwan0": ModemLink(isConnected: false)])
    for interface: BusValue in [
      .number(7), .other, .texts(["wwan0"]), .text("../wwan0"), .text("a name that is too long"),
    ] {
      #expect(self.objects(bearer: ["Interface": interface]).links == [:])
    }
    #expect(self.objects(["AccessTechnologies": .number(-1)]).links["wwan0"]?.generation == nil)
    #expect(self.objects(["Bearers": .text(Self.bearer)]).links == [:])
    var strange = self.objects()
    strange.update("/elsewhere", BusProperties("org.example", ["Bearers": .texts(["/x"])]))
    #expect(strange == self.objects())
  }

  @Test("a changed property replaces its value; the others stay")
  func changes() {
    var objects = self.objects(["AccessTechnologies": .number(1 << 14)])
    objects.update(Self.bearer, BusProperties(ModemObjects.bearer, ["Suspended": .flag(true)]))
    #expect(objects.links == ["wwan0": ModemLink(isSuspended: true, generation: .fourth)])
    objects.update(Self.modem, BusProperties(ModemObjects.modem, ["Bearers": .texts(["/b/1"])]))
    #expect(objects.links == [:] && objects.unreadBearers == ["/b/1"])
    objects.update("/b/1", BusProperties(ModemObjects.bearer, ["Interface": .text("wwan1")]))
    #expect(objects.links.keys.sorted() == ["wwan1"] && objects.unreadBearers == [])
    objects.remove(Self.modem, ["org.example"])
    #expect(objects.links.keys.sorted() == ["wwan1"])
    objects.remove(Self.modem, [ModemObjects.modem])
    #expect(objects == ModemObjects())
  }

  @Test("bearers share a link → the connected one counts")
  func shared() {
    for order in [["/a", "/b", "/c"], ["/c", "/b", "/a"]] {
      var objects = self.objects(["Bearers": .texts(order)])
      objects.update("/a", BusProperties(ModemObjects.bearer, ["Interface": .text("wwan0")]))
      for (path, isSuspended) in [("/b", true), ("/c", false)] {
        objects.update(
          path,
          BusProperties(
            ModemObjects.bearer,
            [
              "Interface": .text("wwan0"), "Connected": .flag(true),
              "Suspended": .flag(isSuspended),
            ]))
      }
      #expect(objects.links == ["wwan0": ModemLink()])
    }
  }

  @Test("D8 more modems and bearers than a machine can have → only a bounded number is stored")
  func bounded() {
    var objects = ModemObjects()
    for modem in 0..<100 {
      let paths = (0..<100).map { "/\(modem)/\($0)" }
      objects.update(
        "/\(modem)", BusProperties(ModemObjects.modem, ["Bearers": .texts(paths)]))
      for path in paths.prefix(10) {
        objects.update(
          path,
          BusProperties(ModemObjects.bearer, ["Interface": .text("wwan\(modem)\(path.count)")]))
      }
    }
    #expect(objects.links.count <= 64)
    #expect(objects.unreadBearers.count <= 64)
  }
}
