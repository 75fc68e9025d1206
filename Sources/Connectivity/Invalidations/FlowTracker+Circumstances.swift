extension FlowTracker {
  /// What happened to the system at the moment of a reading.
  public struct Circumstances: Hashable, Sendable {
    /// The category changed, and what that does (I5).
    public var categoryChange: CategoryChange?
    /// The machine slept for so long (I6).
    public var slept: Duration?

    public init(categoryChange: CategoryChange? = nil, slept: Duration? = nil) {
      self.categoryChange = categoryChange
      self.slept = slept
    }

    /// Takes what happened later for part of the same: the gravest counts.
    public mutating func join(_ later: Circumstances) {
      if case .overdue(let severity) = later.categoryChange, self.categoryChange == .inDoubt {
        self.categoryChange = .changed(severity)
      } else if self.categoryChange == .inDoubt,
        later.categoryChange == .returned || later.categoryChange == .replaced
      {
        self.categoryChange = later.categoryChange
      } else if later.categoryChange.gravity >= self.categoryChange.gravity {
        self.categoryChange = later.categoryChange
      }
      self.slept = [self.slept, later.slept].compactMap { $0 }.max()
    }

    /// Whether a grace is over: what was lost with the category is lost.
    var isOverdue: Bool {
      switch self.categoryChange {
      case .overdue, .replaced: true
      case .changed, .inDoubt, .returned, nil: false
      }
    }
  }

  /// What a changed category does to channels.
  public enum CategoryChange: Hashable, Sendable {
    case changed(Invalidation.Severity)
    /// There is no path now, and a grace runs.
    case inDoubt
    /// The path came back in time, or bounced.
    case returned
    /// The grace is over.
    case overdue(Invalidation.Severity)
    /// The grace is over, and another path has brought the same category back: lost is only what was on the first.
    case replaced
  }
}

extension FlowTracker.CategoryChange? {
  fileprivate var gravity: Int {
    switch self {
    case nil: 0
    case .returned, .replaced: 1
    case .inDoubt: 2
    case .overdue: 3
    case .changed: 4
    }
  }
}
