import Connectivity

/// A kernel that is asked for each link and each address once. Good for as long as one look takes, which begins with the
/// ways to where the flows lead.
final class RememberingKernel: KernelDecorator {
  let source: any Kernel
  private var known: [UInt32: LinkFacts?] = [:]
  private var found: [IPAddress: [UInt32: Address?]] = [:]
  private var present: [IPAddress: [UInt32: Bool]] = [:]
  private var all: [Address]?

  init(_ source: any Kernel) {
    self.source = source
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    if let known = self.known[index] { return known }
    let link = try self.source.link(index)
    self.known[index] = .some(link)
    return link
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    if let known = self.found[address]?[link] { return known }
    let found = try self.source.address(address, on: link)
    self.found[address, default: [:]][link] = .some(found)
    return found
  }

  func hasAddress(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Bool {
    if let isPresent = self.present[address]?[link] { return isPresent }
    let isPresent = try self.source.hasAddress(address, on: link)
    self.present[address, default: [:]][link] = isPresent
    return isPresent
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    if let all = self.all { return all }
    let all = try self.source.addresses()
    self.all = all
    return all
  }
}
