import Connectivity
import ConnectivityRules
import Netlink

@testable import ConndServer

/// A kernel that can reopen its sockets.
protocol ReopenableKernel: Kernel {
  func reopen(_ watched: FilterSpec) throws(KernelUnavailable)
}

extension ReopenableKernel {
  var fileDescriptor: CInt { -1 }
}
