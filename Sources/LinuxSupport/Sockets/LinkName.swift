package import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Returns the name of the link with an index, or `nil` if it does not exist, as for 0.
package func linkName(_ index: UInt32) -> String? {
  var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
  guard index != 0, if_indextoname(index, &name) != nil else { return nil }
  return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
}

/// Returns the index of the link with a name, or `nil` if it does not exist.
package func linkIndex(_ name: String) -> UInt32? {
  let index = if_nametoindex(name)
  return index == 0 ? nil : index
}

/// Returns the name of the link that has an address, or `nil` unless exactly one link has it.
package func linkName(of address: IPAddress) -> String? {
  var list: UnsafeMutablePointer<ifaddrs>?
  guard getifaddrs(&list) == 0 else { return nil }
  defer { freeifaddrs(list) }
  var names: Set<String> = []
  for entry in sequence(first: list, next: { $0?.pointee.ifa_next }) {
    guard let entry, let name = entry.pointee.ifa_name, let bytes = entry.pointee.ifa_addr else {
      continue
    }
    if SocketName(bytes)?.address == address { names.insert(String(cString: name)) }
  }
  return names.count == 1 ? names.first : nil
}
