import LinuxSupport

extension FileQuestion {
  /// The maximum number of files per directory. No machine has more links with resolvers or leases.
  static let maxLinkFiles = 256
}

/// The files of systemd-networkd below /run/systemd/netif, one for each link. Their format is not
/// guaranteed to stay the same, so anything unknown is ignored.
extension FileReader {
  /// Returns the text of each file in a directory, with the name of its link.
  func networkdFiles(in directory: String) -> [(link: String, text: [UInt8])] {
    self.names(in: directory, limit: FileQuestion.maxLinkFiles).compactMap { name in
      // Files are named by the link's index. Files with other names are still being written.
      guard UInt32(name) != nil,
        let text = try? self.answer(FileQuestion(.file, "\(directory)/\(name)")).get(),
        let link = try? self.answer(FileQuestion(.linkName, name)).get()
      else { return nil }
      return (String(decoding: link, as: UTF8.self), text)
    }
  }
}

/// Returns the value of `KEY=value` in a file of systemd-networkd, or `nil` without such a line.
func networkdValue(of key: String, in text: [UInt8]) -> ArraySlice<UInt8>? {
  let key = Array("\(key)=".utf8)
  return text.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: key) }
    .map { $0.dropFirst(key.count) }
}
