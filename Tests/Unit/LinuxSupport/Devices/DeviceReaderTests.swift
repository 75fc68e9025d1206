import Connectivity
import Foundation
import Testing

@testable import LinuxSupport

@Suite("K5 evidence from sysfs")
struct DeviceReaderTests {
  /// A tree like /sys, for the duration of a test.
  private final class Tree {
    let root = NSTemporaryDirectory() + "sysfs-\(UUID().uuidString)"

    func add(_ name: String, index: Int, uevent: String = "") throws {
      let directory = "\(self.root)/class/net/\(name)"
      try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: true)
      try "\(index)\n".write(toFile: "\(directory)/ifindex", atomically: false, encoding: .utf8)
      try uevent.write(toFile: "\(directory)/uevent", atomically: false, encoding: .utf8)
    }

    /// A file anywhere in the tree.
    func file(_ path: String, _ text: String) throws {
      let whole = "\(self.root)/\(path)"
      try FileManager.default.createDirectory(
        atPath: String(whole[..<(whole.lastIndex(of: "/") ?? whole.endIndex)]),
        withIntermediateDirectories: true)
      try text.write(toFile: whole, atomically: false, encoding: .utf8)
    }

    func link(_ path: String, to target: String) throws {
      try FileManager.default.createSymbolicLink(
        atPath: "\(self.root)/class/net/\(path)", withDestinationPath: target)
    }

    func directory(_ path: String) throws {
      try FileManager.default.createDirectory(
        atPath: "\(self.root)/class/net/\(path)", withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: self.root) }
  }

  @Test("K5 DEVTYPE, phy80211 and the driver")
  func evidence() throws {
    let tree = Tree()
    try tree.add("wlan0", index: 3, uevent: "DEVTYPE=wlan\nINTERFACE=wlan0\nIFINDEX=3\n")
    try tree.directory("wlan0/phy80211")
    try tree.directory("wlan0/device")
    try tree.link("wlan0/device/driver", to: "../../../../bus/pci/drivers/iwlwifi")
    let reader = DeviceReader(root: tree.root)
    #expect(
      reader.device(of: Link(index: 3, name: "wlan0"))
        == Device(type: "wlan", hasPhy80211: true, driver: "iwlwifi"))
  }

  @Test("E0 conntrack's count and the list of IPVS tell whether connections may be translated")
  func translations() throws {
    let heading = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port\n  ->\n"
    for (count, servers, expected) in [
      (nil, nil, false), ("0\n", nil, false), ("7\n", nil, true), ("0\n", heading, false),
      (nil, heading + "TCP  0A600001:0050 rr\n", true),
    ] as [(String?, String?, Bool)] {
      let tree = Tree()
      if let count { try tree.file("net/netfilter/nf_conntrack_count", count) }
      if let servers { try tree.file("net/ip_vs", servers) }
      let reader = DeviceReader(root: tree.root, proc: tree.root, settings: tree.root)
      #expect(reader.translatesConnections() == expected, "\(count ?? "") \(servers ?? "")")
    }
  }

  @Test("E0 a file exists but cannot be read → connections may be translated")
  func unreadable() throws {
    for path in ["net/netfilter/nf_conntrack_count", "net/ip_vs"] {
      let tree = Tree()
      // A directory in its place.
      try tree.file("\(path)/other", "")
      let reader = DeviceReader(root: tree.root, proc: tree.root, settings: tree.root)
      #expect(reader.translatesConnections())
    }
  }

  /// For a USB device, the link's `device` is the interface that its driver is bound to. RNDIS, ECM
  /// and NCM have two; it is the control interface.
  @Test(
    "K5 a USB device has a driver and no DEVTYPE, and its RNDIS class is read",
    arguments: [
      ("eth1", "3-2:4.2", "ipheth", "ff", "fd", "01"),
      ("usb0", "1-4:1.0", "rndis_host", "e0", "01", "03"),
      ("usb1", "1-1:1.0", "rndis_host", "02", "02", "ff"),
      ("enx021a11f0a1b2", "2-1:2.0", "cdc_ether", "02", "06", "00"),
    ])
  func phones(
    name: String, interface: String, driver: String, class: String, subclass: String,
    protocol: String
  ) throws {
    let tree = Tree()
    let bus = "devices/pci0000:00/0000:00:14.0/usb1/\(interface)"
    try tree.file("\(bus)/bInterfaceClass", "\(`class`)\n")
    try tree.file("\(bus)/bInterfaceSubClass", "\(subclass)\n")
    try tree.file("\(bus)/bInterfaceProtocol", "\(`protocol`)\n")
    try tree.file("bus/usb/drivers/\(driver)/module/refcnt", "1\n")
    try tree.add(name, index: 7, uevent: "INTERFACE=\(name)\nIFINDEX=7\n")
    try FileManager.default.createSymbolicLink(
      atPath: "\(tree.root)/\(bus)/driver",
      withDestinationPath: "../../../../../bus/usb/drivers/\(driver)")
    try tree.link("\(name)/device", to: "\(tree.root)/\(bus)")
    let codes = [`class`, subclass, `protocol`].compactMap { UInt8($0, radix: 16) }
    let isRead = driver == "rndis_host"
    let reader = DeviceReader(root: tree.root)
    let link = Link(index: 7, name: name)
    #expect(
      reader.device(of: link)
        == Device(
          driver: driver,
          usbInterface: isRead ? USBInterface(codes[0], codes[1], codes[2]) : nil))
    for nonsense in ["", "xx\n", "100\n", "-1\n"] {
      try tree.file("\(bus)/bInterfaceSubClass", nonsense)
      #expect(reader.device(of: link) == Device(driver: driver))
    }
  }

  @Test("K6 the links below, by their indexes")
  func lower() throws {
    let tree = Tree()
    try tree.add("br0", index: 9, uevent: "DEVTYPE=bridge\nINTERFACE=br0\n")
    try tree.add("eth0", index: 2)
    try tree.add("eth1", index: 4)
    try tree.link("br0/lower_eth0", to: "../eth0")
    try tree.link("br0/lower_eth1", to: "../eth1")
    try tree.link("br0/lower_gone", to: "../gone")
    let device = DeviceReader(root: tree.root).device(of: Link(index: 9, name: "br0"))
    #expect(device == Device(type: "bridge", lowerLinks: [2, 4]))
  }

  @Test("K6 below an internal port of Open vSwitch are the ports of its datapath")
  func openVSwitch() throws {
    let tree = Tree()
    try tree.add("br-ex", index: 9)
    try tree.add("ovs-system", index: 8)
    try tree.add("eth0", index: 2)
    try tree.link("ovs-system/lower_eth0", to: "../eth0")
    let link = Link(index: 9, name: "br-ex", kind: "openvswitch")
    #expect(DeviceReader(root: tree.root).device(of: link) == Device(lowerLinks: [2]))
  }

  @Test(
    "K6 below a ppp link are the links of PPPoE sessions",
    arguments: [
      ("", []), ("Id       Address              Device\n", []),
      (sessionList(["eth0.7"]), [7]), (sessionList(["eth0.7", "eth0.7"]), [7]),
      (sessionList(["eth1", "eth0.7", "gone"]), [3, 7]),
      // A server's list.
      (sessionList(Array(repeating: "eth1", count: 200)), []),
    ] as [(String, [UInt32])])
  func sessions(list: String, below: [UInt32]) throws {
    let tree = Tree()
    try tree.add("ppp0", index: 9)
    try tree.add("eth1", index: 3)
    try tree.add("eth0.7", index: 7)
    try tree.file("net/pppoe", list)
    let reader = DeviceReader(root: tree.root, proc: tree.root)
    let link = Link(index: 9, name: "ppp0", kind: "ppp")
    #expect(reader.device(of: link) == Device(lowerLinks: below))
  }

  @Test("Another link with the same name gives no evidence")
  func otherIndex() throws {
    let tree = Tree()
    try tree.add("eth0", index: 2, uevent: "DEVTYPE=wlan\n")
    #expect(DeviceReader(root: tree.root).device(of: Link(index: 3, name: "eth0")) == .unknown)
  }

  @Test("Without sysfs the device is unknown")
  func noTree() {
    let reader = DeviceReader(root: "/nonexistent")
    #expect(reader.device(of: Link(index: 1, name: "lo")) == .unknown)
  }

  @Test(
    "D8 names that lead to other paths are refused",
    arguments: ["", ".", "..", "../net/eth0", "a/b", "eth0/../eth0"])
  func names(name: String) throws {
    let tree = Tree()
    try tree.add("eth0", index: 2, uevent: "DEVTYPE=wlan\n")
    #expect(DeviceReader(root: tree.root).device(of: Link(index: 2, name: name)) == .unknown)
  }

  @Test("D8 unexpected file contents are ignored")
  func nonsense() throws {
    let tree = Tree()
    try tree.add("eth0", index: 2, uevent: "\n\nDEVTYPE\n=\nDEVTYPE=\nX=DEVTYPE=wlan")
    let device = DeviceReader(root: tree.root).device(of: Link(index: 2, name: "eth0"))
    #expect(device.type == nil)
    #expect(device.driver == nil)
  }
}

/// A /proc/net/pppoe with a session for each of these links.
private func sessionList(_ links: [String]) -> String {
  "Id       Address              Device\n"
    + links.map { "0100    02:00:00:00:00:01     \($0)\n" }.joined()
}
