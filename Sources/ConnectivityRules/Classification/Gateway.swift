package import Connectivity

/// A gateway by its address, on the link behind which it is.
package struct Gateway: Hashable, Sendable {
  package var link: UInt32
  package var address: IPAddress

  package init(link: UInt32, address: IPAddress) {
    self.link = link
    self.address = address
  }
}
