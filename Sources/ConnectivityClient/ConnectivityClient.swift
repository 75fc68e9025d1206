// Its words are those of this library: errors, events, invalidations. Who imports the one is given the other.
@_exported public import ConnectivitySession
