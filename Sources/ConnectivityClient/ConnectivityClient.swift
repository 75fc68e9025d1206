// Importing this module also exports `ConnectivityMonitor`, on which it stands.
@_exported public import ConnectivityMonitor
