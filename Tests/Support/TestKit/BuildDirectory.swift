import Glibc

/// The directory of the running test bundle, and of the programs built with it.
public let buildDirectory: String = {
  var buffer = [UInt8](repeating: 0, count: 4096)
  let count = readlink("/proc/self/exe", &buffer, buffer.count)
  let executable = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
  // In some layouts the bundle is a directory that contains the executable.
  var parts = executable.split(separator: "/").dropLast()
  while let last = parts.last, last.hasSuffix(".xctest") || last == "MacOS" || last == "Contents" {
    parts.removeLast()
  }
  return "/" + parts.joined(separator: "/")
}()
