// Importing this module also exports `ConnectivitySession`, which has its errors, events and
// invalidations.
@_exported public import ConnectivitySession
