import Connectivity
import ConnectivityRules
import Testing

@Suite("Diversions of packets")
struct PacketDiversionTests {
  private static func rule(
    _ selection: Rule.Selection, _ table: UInt32?, _ selector: String = "from all"
  ) -> Rule {
    Rule(family: .ipv4, priority: 0, selector: selector, selection: selection, table: table)
  }

  private static let usual = [rule(.all, 255), rule(.all, 254), rule(.all, 253)]

  @Test("E0 a rule by mark, as of mwan3 or for TPROXY → the lookup is not proof")
  func marks() {
    #expect(!Rule.mayDivert([]) && !Rule.mayDivert(Self.usual))
    #expect(Rule.mayDivert(Self.usual + [Self.rule(.mark(0x100, isInverted: false), 1)]))
    let more = Self.rule(.other, 1, "from 192.0.2.7 fwmark 0x100/0xff00")
    #expect(Rule.mayDivert(Self.usual + [more]))
    #expect(!Rule.mayDivert(Self.usual + [Self.rule(.other, 1, "from 192.0.2.7")]))
  }

  @Test("E0 the rules of wg-quick and Tailscale for their own packets → the lookup is proof")
  func tunnels() {
    let own = Rule.Selection.mark(0x80000, isInverted: false)
    #expect(!Rule.mayDivert([Self.rule(.mark(0xca6c, isInverted: true), 51820)] + Self.usual))
    let tailscale = [
      Self.rule(own, 254), Self.rule(own, 253), Self.rule(own, nil), Self.rule(.all, 52),
    ]
    #expect(!Rule.mayDivert(tailscale + Self.usual))
    #expect(Rule.mayDivert(tailscale + [Self.rule(.mark(7, isInverted: false), 9)] + Self.usual))
  }
}
