package conndial

// The numbers of fields and enums are those of connectivity/v1/connectivity.proto.

const (
	statusSatisfied          = 1
	statusRequiresConnection = 2
	statusUnsatisfied        = 3

	protocolTCP         = 6
	questionByKeepalive = 1
)

// addRequest returns a GuardRequest that adds a flow, with the last path that connd reported for
// it, and the generation of that report, if there was one. An existing connection was made some time
// ago.
func addRequest(id uint64, s socket, knownPath []byte, generation uint64, isExisting bool) []byte {
	flow := appendNumber(nil, 1, id)
	flow = appendBytes(flow, 2, s.remote.Addr().String())
	if s.local.IsValid() {
		flow = appendBytes(flow, 3, s.local.Addr().String())
	}
	flow = appendNumber(flow, 4, uint64(s.mark))
	flow = appendBytes(flow, 5, s.link)
	if knownPath != nil {
		flow = appendNumber(flow, 6, generation)
		flow = appendBytes(flow, 7, knownPath)
	}
	flow = appendNumber(flow, 10, uint64(s.local.Port()))
	flow = appendNumber(flow, 11, uint64(s.remote.Port()))
	flow = appendNumber(flow, 12, protocolTCP)
	if s.tcp != nil {
		flow = appendNumber(flow, 13, questionByKeepalive)
	}
	if isExisting {
		flow = appendNumber(flow, 14, 1)
	}
	return appendBytes(nil, 1, flow)
}

// removeRequest returns a GuardRequest that removes a flow.
func removeRequest(id uint64) []byte {
	return appendBytes(nil, 2, appendNumber(nil, 1, id))
}

// A response is a GuardResponse. At most one of path, invalidation and refusal is set.
type response struct {
	generation, id, namespace uint64
	path                      *path
	invalidation              *invalidation
	isRefused                 bool
	refusal                   string
	// asks is whether the client must ask its peer for a sign of life.
	asks bool
}

// A path is the kernel's path to the peer of a flow.
type path struct {
	status int
	// link is the index of the outgoing link, or 0 if it is unknown.
	link int
	// encoded is the message as connd sent it, with fields of later versions.
	encoded []byte
}

type invalidation struct {
	severity Severity
	reason   Reason
	cause    string
	path     path
}

func parseResponse(message []byte) (response, error) {
	var r response
	var inner error
	err := fields(message, func(f field) {
		var err error
		switch f.number {
		case 1:
			r.generation = f.value
		case 2:
			r.id = f.value
		case 3, 6: // path, better_path_gone
			r.path = &path{}
			*r.path, err = parsePath(f.bytes)
		case 4:
			r.invalidation = &invalidation{}
			*r.invalidation, err = parseInvalidation(f.bytes)
		case 5:
			r.isRefused = true
			err = fields(f.bytes, func(f field) {
				if f.number == 2 {
					r.refusal = string(f.bytes)
				}
			})
		case 7:
			r.namespace = f.value
		case 8:
			r.asks = true
		}
		if err != nil {
			inner = err
		}
	})
	if err == nil {
		err = inner
	}
	return r, err
}

func parsePath(message []byte) (path, error) {
	// The buffer of the message is used again.
	p := path{encoded: append([]byte{}, message...)}
	var inner error
	isFirst := true
	err := fields(message, func(f field) {
		switch {
		case f.number == 1:
			p.status = int(f.value)
		case f.number == 4 && isFirst:
			isFirst = false
			inner = fields(f.bytes, func(f field) {
				if f.number == 2 {
					p.link = int(uint32(f.value))
				}
			})
		}
	})
	if err == nil {
		err = inner
	}
	return p, err
}

func parseInvalidation(message []byte) (invalidation, error) {
	i := invalidation{severity: Advise}
	var inner error
	err := fields(message, func(f field) {
		switch f.number {
		case 1:
			i.reason = Reason(f.value)
		case 2:
			// A severity of a later version counts as Advise.
			if s := Severity(f.value); s == Destroy || s == Drain {
				i.severity = s
			}
		case 3:
			var err error
			if i.cause, err = parseCause(f.bytes); err != nil {
				inner = err
			}
		case 4:
			var err error
			if i.path, err = parsePath(f.bytes); err != nil {
				inner = err
			}
		}
	})
	if err == nil {
		err = inner
	}
	return i, err
}

// parseCause returns a Cause as text: "carrierLost on eth0".
func parseCause(message []byte) (string, error) {
	var change, link string
	err := fields(message, func(f field) {
		switch f.number {
		case 2:
			change = string(f.bytes)
		case 4:
			link = " on " + string(f.bytes)
		}
	})
	return change + link, err
}
