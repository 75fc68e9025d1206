package import Connectivity

/// Reads from sysfs what rtnetlink does not tell of a device.
///
/// Every file may be missing: a sandbox hides sysfs, and it may belong to another network namespace, where a link
/// of the same name is another link. Then nothing is known (`Device.unknown`).
package struct DeviceReader {
  private let root: String
  private let run: String
  private let proc: String
  private let files: any FileReader

  /// - Parameters:
  ///   - root: Where sysfs is mounted.
  ///   - run: Where programs leave what holds until the next boot.
  ///   - proc: Where the kernel shows connd's own process.
  ///   - files: What reads there.
  package init(
    root: String = "/sys", run: String = "/run", proc: String = "/proc/self",
    from files: any FileReader = DeviceFiles()
  ) {
    self.root = root
    self.run = run
    self.proc = proc
    self.files = files
  }

  /// What is known of the device behind `link`.
  package func device(of link: Link) -> Device {
    guard let directory = self.directory(of: link.name) else { return .unknown }
    // The name may pass to another link at any time: what was read in between would be that one's.
    guard self.index(in: directory) == link.index else { return .unknown }
    let driver = self.lastComponent(ofLink: "\(directory)/device/driver")
    let device = Device(
      type: self.type(in: directory),
      hasPhy80211: self.ask(.existence, "\(directory)/phy80211") != nil,
      driver: driver, usbInterface: driver == "rndis_host" ? self.usbInterface(in: directory) : nil,
      serialDriver: link.kind == "ppp" ? self.serialDriver(of: link.name) : nil,
      lowerLinks: self.lowerLinks(of: link, in: directory))
    guard self.index(in: directory) == link.index else { return .unknown }
    return device
  }

  private func directory(of name: String) -> String? {
    guard !name.isEmpty, name != ".", !name.contains("/"), !name.contains("..") else { return nil }
    return "\(self.root)/class/net/\(name)"
  }

  private func index(in directory: String) -> UInt32? {
    self.text("\(directory)/ifindex").flatMap { UInt32($0.prefix { $0 != "\n" }) }
  }

  /// `DEVTYPE` of the device's `uevent`.
  private func type(in directory: String) -> String? {
    let key = "DEVTYPE="
    return self.text("\(directory)/uevent")?.split(separator: "\n").first {
      $0.hasPrefix(key) && $0.count > key.count
    }
    .map { String($0.dropFirst(key.count)) }
  }

  /// The links below: those that the kernel says in sysfs, and for some kinds what it says elsewhere.
  private func lowerLinks(of link: Link, in directory: String) -> [UInt32] {
    switch link.kind {
    // What has an address is a port of the datapath, and all other ports are below the datapath's own link.
    case "openvswitch":
      self.lowerLinks(in: "\(self.root)/class/net/ovs-system").filter { $0 != link.index }
    case "ppp": self.sessionLinks()
    default: self.lowerLinks(in: directory)
    }
  }

  /// The links that PPPoE sessions run over. The kernel does not say which ppp link has which session, and there is mostly one.
  /// (A server has so many that the list is longer than a page. Its links are not known by it.)
  private func sessionLinks() -> [UInt32] {
    guard let list = self.ask(.page, "\(self.proc)/net/pppoe"), list.count < 4096 else { return [] }
    let lines = String(decoding: list, as: UTF8.self).split(separator: "\n").dropFirst()
    // Number, hardware address of the other end, link.
    let names = lines.compactMap { line in
      let fields = line.split(separator: " ")
      return fields.count == 3 ? String(fields[2]) : nil
    }
    return Set(names).compactMap { self.directory(of: $0).flatMap(self.index) }.sorted()
  }

  private func lowerLinks(in directory: String) -> [UInt32] {
    self.names(in: directory).filter { $0.hasPrefix("lower_") }.sorted()
      .compactMap { self.index(in: "\(directory)/\($0)") }
  }

  /// What the USB interface is for that is the link's device. Asked of a driver whose devices announce themselves in several ways: of another
  /// it tells nothing that the driver does not.
  private func usbInterface(in directory: String) -> USBInterface? {
    func code(_ name: String) -> UInt8? {
      self.text("\(directory)/device/\(name)").flatMap {
        UInt8($0.prefix { $0 != "\n" }, radix: 16)
      }
    }
    guard let interfaceClass = code("bInterfaceClass"), let subclass = code("bInterfaceSubClass"),
      let protocolCode = code("bInterfaceProtocol")
    else { return nil }
    return USBInterface(interfaceClass, subclass, protocolCode)
  }

  /// The driver of the serial line that a ppp link runs over: the line is the one that is locked by the process which has left its number for
  /// the link, as pppd(8) does both. The lock is root's, for pppd makes it as root; everybody may fill its directory, so that the lines are
  /// asked for that there are.
  private func serialDriver(of link: String) -> String? {
    // Of versions before and from 2.5 on.
    let process = ["\(self.run)/\(link).pid", "\(self.run)/pppd/\(link).pid"].lazy
      .compactMap { self.process(.page, $0) }.first
    guard let process else { return nil }
    let lines = "\(self.root)/class/tty"
    for line in self.names(in: lines).filter(Self.isSerialLine).sorted()
    where self.process(.rootPage, "\(self.run)/lock/LCK..\(line)") == process {
      return self.lastComponent(ofLink: "\(lines)/\(line)/device/driver")
    }
    return nil
  }

  /// `ttyUSB2`, and no console, which is `tty2`.
  private static func isSerialLine(_ name: String) -> Bool {
    let kind = name.dropFirst(3)
    return name.hasPrefix("tty") && kind.first.map { !$0.isNumber } ?? false
  }

  /// The number that is all that a file holds.
  private func process(_ kind: FileQuestion.Kind, _ path: String) -> UInt32? {
    guard let bytes = self.ask(kind, path), bytes.count <= 64 else { return nil }
    let digits = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
    return UInt32(digits).flatMap { $0 > 0 ? $0 : nil }
  }

  private func ask(_ kind: FileQuestion.Kind, _ path: String) -> [UInt8]? {
    try? self.files.answer(FileQuestion(kind, path)).get()
  }

  private func text(_ path: String) -> String? {
    self.ask(.page, path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// The last component of what a symbolic link points to.
  private func lastComponent(ofLink path: String) -> String? {
    self.ask(.linkTarget, path).flatMap {
      String(decoding: $0, as: UTF8.self).split(separator: "/").last.map(String.init)
    }
  }

  private func names(in directory: String) -> [String] {
    (self.ask(.names, directory) ?? []).split(separator: 0)
      .map { String(decoding: $0, as: UTF8.self) }
  }
}
