package import Connectivity

/// The address of a gateway and the link to it.
package struct Gateway: Hashable, Sendable {
  package var link: UInt32
  package var address: IPAddress

  package init(link: UInt32, address: IPAddress) {
    self.link = link
    self.address = address
  }
}
