// The causes of errors, for callers that import no other module.
@_exported public import struct Connectivity.FlowInvalidation
@_exported public import struct Connectivity.NetworkUnavailable
