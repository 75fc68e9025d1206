package import Connectivity

/// Reads from sysfs what rtnetlink does not tell of a device.
///
/// Every file may be missing: a sandbox hides sysfs, and it may belong to another network namespace, where a link
/// of the same name is another link. Then nothing is known (`Device.unknown`).
package struct DeviceReader {
  private let root: String
  private let files: any FileReader

  /// - Parameters:
  ///   - root: Where sysfs is mounted.
  ///   - files: What reads there.
  package init(root: String = "/sys", from files: any FileReader = DeviceFiles()) {
    self.root = root
    self.files = files
  }

  /// What is known of the device behind `link`.
  package func device(of link: Link) -> Device {
    guard let directory = self.directory(of: link.name) else { return .unknown }
    // The name may pass to another link at any time: what was read in between would be that one's.
    guard self.index(in: directory) == link.index else { return .unknown }
    let device = Device(
      type: self.type(in: directory),
      hasPhy80211: self.ask(.existence, "\(directory)/phy80211") != nil,
      driver: self.lastComponent(ofLink: "\(directory)/device/driver"),
      lowerLinks: self.lowerLinks(in: directory))
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

  private func lowerLinks(in directory: String) -> [UInt32] {
    self.names(in: directory).filter { $0.hasPrefix("lower_") }.sorted()
      .compactMap { self.index(in: "\(directory)/\($0)") }
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
