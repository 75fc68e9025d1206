import Connectivity

/// A sorted set of addresses. Adding a few takes one pass without hashing, however many there are.
struct AddressList: Equatable {
  private(set) var all: [IPAddress]

  init(_ addresses: some Sequence<IPAddress> = []) {
    self.all = []
    for address in addresses.sorted() where address != self.all.last { self.all.append(address) }
  }

  var count: Int { self.all.count }

  func contains(_ address: IPAddress) -> Bool {
    var (low, high) = (0, self.all.count)
    while low < high {
      let middle = low + (high - low) / 2
      if self.all[middle] < address { low = middle + 1 } else { high = middle }
    }
    return low < self.all.count && self.all[low] == address
  }

  func isSuperset(of addresses: some Sequence<IPAddress>) -> Bool {
    addresses.allSatisfy(self.contains)
  }

  mutating func insert(_ addresses: some Sequence<IPAddress>) {
    let new = AddressList(addresses).all
    var merged: [IPAddress] = []
    merged.reserveCapacity(self.all.count + new.count)
    var next = new.startIndex
    for address in self.all {
      while next < new.endIndex, new[next] < address {
        merged.append(new[next])
        next += 1
      }
      if next < new.endIndex, new[next] == address { next += 1 }
      merged.append(address)
    }
    merged += new[next...]
    self.all = merged
  }
}
