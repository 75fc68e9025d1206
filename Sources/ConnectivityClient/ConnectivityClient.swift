// This module re-exports `ConnectivityMonitor`, because its API uses that module's types.
@_exported public import ConnectivityMonitor
