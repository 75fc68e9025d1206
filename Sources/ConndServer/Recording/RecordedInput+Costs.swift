extension KernelQuery {
  /// The request about cost overrides, or `nil` for any other query.
  var costs: CostRequest? {
    if case .costs(let request, _) = self.kind { request } else { nil }
  }
}

extension FieldWriter {
  mutating func put(_ request: CostRequest) {
    switch request {
    case .list: self.put(0 as UInt8)
    case .copy(let user):
      self.put(4 as UInt8)
      self.put(user) { $0.put($1) }
    case .forget(let name, let user):
      self.put(1 as UInt8)
      self.put(name)
      self.put(user)
    case .set(let request):
      self.put(2 as UInt8)
      switch request.target {
      case .link(let name):
        self.put(true)
        self.put(name)
      case .network(let name):
        self.put(false)
        self.put(name)
      }
      self.put(request.constrained) { $0.put($1.rawValue) }
      self.put(request.expensive) { $0.put($1.rawValue) }
      self.put(request.end) { $0.put($1) }
      self.put(request.user)
    case .assist(let request):
      self.put(3 as UInt8)
      self.put(request.value.rawValue)
      self.put(request.end) { $0.put($1) }
      self.put(request.user)
    }
  }

  private mutating func put(_ end: CostRequest.End) {
    switch end {
    case .boot: self.put(0 as Int64)
    case .left: self.put(-1 as Int64)
    case .after(let duration): self.put(max(1, duration.nanoseconds))
    }
  }
}

extension FieldReader {
  mutating func costRequest() throws(Fault) -> CostRequest {
    switch try self.number(UInt8.self) {
    case 0: return .list
    case 1: return .forget(name: try self.text(), user: try self.number())
    case 2:
      let isLink = try self.flag()
      let name = try self.text()
      return .set(
        CostRequest.CostOverrideRequest(
          target: isLink ? .link(name) : .network(name),
          constrained: try self.optional { (fields) throws(Fault) in
            try fields.choice(CostRequest.Value.self)
          },
          expensive: try self.optional { (fields) throws(Fault) in
            try fields.choice(CostRequest.Value.self)
          },
          end: try self.optional { (fields) throws(Fault) in try fields.end() },
          user: try self.number()))
    case 3:
      return .assist(
        CostRequest.AssistRequest(
          value: try self.choice(CostRequest.Value.self),
          end: try self.optional { (fields) throws(Fault) in try fields.end() },
          user: try self.number()))
    case 4: return .copy(of: try self.optional { (fields) throws(Fault) in try fields.number() })
    default: throw Fault()
    }
  }

  private mutating func end() throws(Fault) -> CostRequest.End {
    let nanoseconds = try self.number(Int64.self)
    switch nanoseconds {
    case 0: return .boot
    case -1: return .left
    case 1...(.max / 4): return .after(.nanoseconds(nanoseconds))
    default: throw Fault()
    }
  }
}
