/// How far programs should save data on a path. A higher level includes the lower ones.
@nonexhaustive public enum ConstraintLevel: String, Hashable, Sendable, CaseIterable {
  /// Programs need not save data.
  case unconstrained = "none"
  /// Programs should save data, because the user or the configuration asks for it (Low Data Mode).
  case constrained
  /// The link carries so little that programs should send only what cannot wait, as by satellite or
  /// 2G.
  case ultra = "ultraConstrained"
}
