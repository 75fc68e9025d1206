package import Connectivity
import Glibc

/// Reads from sysfs what rtnetlink does not tell of a device.
///
/// Every file may be missing: a sandbox hides sysfs, and it may belong to another network namespace, where a link
/// of the same name is another link. Then nothing is known (`Device.unknown`).
package struct DeviceReader: Sendable {
  private let root: String

  /// - Parameter root: Where sysfs is mounted.
  package init(root: String = "/sys") {
    self.root = root
  }

  /// What is known of the device behind `link`.
  package func device(of link: Link) -> Device {
    guard let directory = self.directory(of: link.name) else { return .unknown }
    // The name may pass to another link at any time: what was read in between would be that one's.
    guard self.index(in: directory) == link.index else { return .unknown }
    let device = Device(
      type: self.type(in: directory),
      hasPhy80211: exists("\(directory)/phy80211"),
      driver: lastComponent(ofLink: "\(directory)/device/driver"),
      lowerLinks: self.lowerLinks(in: directory))
    guard self.index(in: directory) == link.index else { return .unknown }
    return device
  }

  private func directory(of name: String) -> String? {
    guard !name.isEmpty, name != ".", !name.contains("/"), !name.contains("..") else { return nil }
    return "\(self.root)/class/net/\(name)"
  }

  private func index(in directory: String) -> UInt32? {
    contents("\(directory)/ifindex").flatMap { UInt32($0.prefix { $0 != "\n" }) }
  }

  /// `DEVTYPE` of the device's `uevent`.
  private func type(in directory: String) -> String? {
    let key = "DEVTYPE="
    return contents("\(directory)/uevent")?.split(separator: "\n").first {
      $0.hasPrefix(key) && $0.count > key.count
    }
    .map { String($0.dropFirst(key.count)) }
  }

  private func lowerLinks(in directory: String) -> [UInt32] {
    names(in: directory).filter { $0.hasPrefix("lower_") }.sorted()
      .compactMap { self.index(in: "\(directory)/\($0)") }
  }
}

private func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

/// A file's text, as far as its first 4096 bytes: sysfs files are no longer than a page.
private func contents(_ path: String) -> String? {
  let file = open(path, O_RDONLY | O_CLOEXEC)
  guard file >= 0 else { return nil }
  defer { close(file) }
  var bytes = [UInt8](repeating: 0, count: 4096)
  let count = read(file, &bytes, bytes.count)
  guard count >= 0 else { return nil }
  return String(decoding: bytes.prefix(count), as: UTF8.self)
}

/// The last component of what a symbolic link points to.
private func lastComponent(ofLink path: String) -> String? {
  var target = [CChar](repeating: 0, count: Int(PATH_MAX))
  let count = readlink(path, &target, target.count)
  guard count > 0 else { return nil }
  let text = String(decoding: target.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
  return text.split(separator: "/").last.map(String.init)
}

private func names(in directory: String) -> [String] {
  guard let stream = opendir(directory) else { return [] }
  defer { closedir(stream) }
  var names: [String] = []
  while let entry = readdir(stream) {
    names.append(
      withUnsafePointer(to: &entry.pointee.d_name) { name in
        name.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) {
          String(cString: $0)
        }
      })
  }
  return names
}
