package import Connectivity
import Glibc

/// Reads device properties from sysfs that rtnetlink does not report.
///
/// Every file may be missing. A sandbox may hide sysfs, or sysfs may belong to another network
/// namespace, in which the name belongs to another link. The result is then `Device.unknown`.
///
/// Implements rules K5 and K6.
package struct DeviceReader {
  private let root: String
  private let proc: String
  private let settings: String
  private let files: any FileReader
  /// The serial lines below ppp links.
  package let serialLines: SerialLines

  /// - Parameters:
  ///   - root: The mount point of sysfs.
  ///   - run: The directory for data that lasts until the next boot.
  ///   - proc: The /proc directory of connd's process.
  ///   - settings: The directory of sysctl(8).
  ///   - files: Reads the files.
  package init(
    root: String = "/sys", run: String = "/run", proc: String = "/proc/self",
    settings: String = "/proc/sys", from files: any FileReader = MachineFiles()
  ) {
    self.root = root
    self.proc = proc
    self.settings = settings
    self.files = files
    self.serialLines = SerialLines(root: root, run: run, from: files)
  }

  /// Returns the known properties of the device behind `link`.
  package func device(of link: Link) -> Device {
    guard let directory = self.directory(of: link.name) else { return .unknown }
    // The name may move to another link at any time. Values read after that would belong to the
    // other link.
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

  /// Whether netfilter or IPVS may translate the addresses of connections (E0). Netfilter tracks
  /// each connection that it translates. The count covers connd's namespace. If the file does not
  /// exist, no connections are tracked.
  package func translatesConnections() -> Bool {
    self.mayHold("\(self.settings)/net/netfilter/nf_conntrack_count") {
      $0.prefix(while: \.isNumber) != "0"
    }
      // The services follow three header lines.
      || self.mayHold("\(self.proc)/net/ip_vs") { $0.split(separator: "\n").count > 3 }
  }

  /// Whether a file's text meets a condition. Also `true` if the file may exist but cannot be read.
  private func mayHold(_ path: String, _ condition: (String) -> Bool) -> Bool {
    switch self.files.answer(FileQuestion(.page, path)) {
    case .success(let bytes): condition(String(decoding: bytes, as: UTF8.self))
    case .failure(let error): error.code != ENOENT
    }
  }

  private func directory(of name: String) -> String? {
    guard !name.isEmpty, name != ".", !name.contains("/"), !name.contains("..") else { return nil }
    return "\(self.root)/class/net/\(name)"
  }

  private func index(in directory: String) -> UInt32? {
    self.text("\(directory)/ifindex").flatMap { UInt32($0.prefix { $0 != "\n" }) }
  }

  /// Returns `DEVTYPE` of the device's `uevent`.
  private func type(in directory: String) -> String? {
    let key = "DEVTYPE="
    return self.text("\(directory)/uevent")?.split(separator: "\n").first {
      $0.hasPrefix(key) && $0.count > key.count
    }
    .map { String($0.dropFirst(key.count)) }
  }

  /// Returns the lower links, as sysfs or, for some kinds of links, another source lists them.
  private func lowerLinks(of link: Link, in directory: String) -> [UInt32] {
    switch link.kind {
    // A link with an address is itself a port of the datapath. The other ports are lower links of
    // ovs-system, the datapath's link.
    case "openvswitch":
      self.lowerLinks(in: "\(self.root)/class/net/ovs-system").filter { $0 != link.index }
    case "ppp": self.sessionLinks()
    default: self.lowerLinks(in: directory)
    }
  }

  /// Returns the links that PPPoE sessions run over. The kernel does not report which ppp link has
  /// which session, but usually there is only one. (The list of a server with many sessions exceeds
  /// a page and is ignored.)
  private func sessionLinks() -> [UInt32] {
    guard let list = self.ask(.page, "\(self.proc)/net/pppoe"), list.count < 4096 else { return [] }
    let lines = String(decoding: list, as: UTF8.self).split(separator: "\n").dropFirst()
    // The session number, the MAC address of the peer, and the link.
    let names = lines.compactMap { line in
      let fields = line.split(separator: " ")
      return fields.count == 3 ? String(fields[2]) : nil
    }
    return Set(names).compactMap { self.directory(of: $0).flatMap(self.index) }.sorted()
  }

  private func lowerLinks(in directory: String) -> [UInt32] {
    self.files.names(in: directory).filter { $0.hasPrefix("lower_") }.sorted()
      .compactMap { self.index(in: "\(directory)/\($0)") }
  }

  /// Returns the USB interface of the link's device. Needed only if a driver's devices identify
  /// themselves in several ways.
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

  /// Returns the driver of the serial line below a ppp link. Any user may create a lock, so only
  /// lines that exist are considered.
  private func serialDriver(of link: String) -> String? {
    guard let process = self.serialLines.owner(ofLink: link) else { return nil }
    let lines = "\(self.root)/class/tty"
    for line in self.files.names(in: lines).filter(SerialLines.isLine).sorted()
    where self.serialLines.owner(ofLine: line) == process {
      return self.lastComponent(ofLink: "\(lines)/\(line)/device/driver")
    }
    return nil
  }

  private func ask(_ kind: FileQuestion.Kind, _ path: String) -> [UInt8]? {
    try? self.files.answer(FileQuestion(kind, path)).get()
  }

  private func text(_ path: String) -> String? {
    self.ask(.page, path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Returns the last component of a symbolic link's target.
  private func lastComponent(ofLink path: String) -> String? {
    self.ask(.linkTarget, path).flatMap {
      String(decoding: $0, as: UTF8.self).split(separator: "/").last.map(String.init)
    }
  }
}
