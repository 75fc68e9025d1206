import Connectivity
import Netlink

/// The installed socket filter, compared with the filter that is needed (D6).
struct InstalledFilter {
  /// The addresses with routes that pass the filter.
  private var addresses = AddressList()
  /// The number of these addresses that are no longer needed.
  private var unneeded = 0
  /// The number of addresses when the filter passed only what was needed.
  private var exactCount = 0

  /// - Parameter isExact: Whether the filter passes only what is needed.
  mutating func install(_ spec: FilterSpec, isExact: Bool) {
    self.addresses = AddressList(spec.destinations)
    if isExact { (self.unneeded, self.exactCount) = (0, self.addresses.count) }
  }

  /// Notes that addresses are no longer needed. Their routes pass until the filter is narrowed.
  mutating func release(_ count: Int = 1) { self.unneeded += count }

  func passes(_ addresses: some Sequence<IPAddress>) -> Bool {
    self.addresses.isSuperset(of: addresses)
  }

  /// Returns `addresses` and the addresses with routes that pass the filter now.
  func widened(to addresses: [IPAddress]) -> [IPAddress] {
    var wider = self.addresses
    wider.insert(addresses)
    return wider.all
  }

  /// Whether the filter passes so many addresses that narrowing cannot wait until connd is idle.
  /// Refused registrations leave addresses in the filter that no other counter includes.
  ///
  /// - Parameter needed: The number of clients' addresses that are needed now.
  func isFull(with needed: Int) -> Bool {
    self.addresses.count > 2 * max(needed, self.exactCount) + 1024
  }

  /// Whether the filter passes so many unneeded addresses that narrowing is worthwhile. The cost of
  /// a new filter grows with its addresses, so a filter with many addresses is narrowed less often.
  var isTooWide: Bool {
    self.unneeded > 0
      && (self.addresses.count < 512 || 4 * self.unneeded > self.addresses.count)
  }
}
