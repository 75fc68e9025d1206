import CLinux
import Connectivity
import Testing

@testable import Netlink

@Suite("D6 the filter in the kernel")
struct NotificationFilterTests {
  @Test("D6 everything passes except routes, neighbours and Wi-Fi driver events")
  func others() {
    let filter = BPFInterpreter()
    for capture in Capture.all where capture.bytes != LinkCaptures.wifiScan.bytes {
      switch Int(capture.bytes[4]) {
      case Int(RTM_NEWROUTE), Int(RTM_DELROUTE), Int(RTM_NEWNEIGH), Int(RTM_DELNEIGH): continue
      default: #expect(filter.run(on: capture.bytes) == .max)
      }
    }
  }

  @Test("D7 T3 a scan's end never wakes connd")
  func scans() {
    for unheard in [nil, UnheardLinks(above: 1 << 20), UnheardLinks(above: 0)] {
      #expect(
        BPFInterpreter(FilterSpec(unheard: unheard)).run(on: LinkCaptures.wifiScan.bytes) == 0)
    }
  }

  @Test("D6 the shortest program passes everything that a longer one does")
  func shortest() throws {
    let destinations = try ["10.5.77.1", "2001:db8:1:2::3"].map { try address($0) }
    let gateways = try ["192.0.2.1", "fe80::1"].map { Neighbour(try address($0), link: 10) }
    let watched = FilterSpec(
      destinations: destinations, gateways: gateways, bridged: [[2, 0, 0, 0, 0, 9]],
      unheard: UnheardLinks(above: 9, except: [10], masters: [3]))
    let longest = BPFInterpreter(watched)
    for limit in 32..<longest.program.count {
      let filter = BPFInterpreter(watched, limit: limit)
      #expect(filter.program.count <= limit)
      for capture in Capture.all where longest.run(on: capture.bytes) == .max {
        #expect(filter.run(on: capture.bytes) == .max)
      }
    }
  }

  @Test("D8 the program terminates on every truncated message")
  func truncations() throws {
    let destinations = try ["10.5.77.1", "2001:db8:1:2::3"].map { try address($0) }
    let gateways = try ["192.0.2.1", "fe80::1"].map { Neighbour(try address($0), link: 10) }
    let filter = BPFInterpreter(
      FilterSpec(
        destinations: destinations, gateways: gateways, bridged: [[2, 0, 0, 0, 0, 9]],
        unheard: UnheardLinks(above: 9, except: [10], masters: [3])))
    for capture in Capture.all {
      for count in 0..<capture.bytes.count {
        #expect(filter.run(on: Array(capture.bytes.prefix(count))) != nil)
      }
    }
  }
}
