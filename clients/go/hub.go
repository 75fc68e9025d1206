package conndial

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// A hub guards the connections of a process by one stream to connd. Its goroutine (run) exists while
// there are connections.
type hub struct {
	path string
	// wake is signalled after each change of the flows.
	wake chan struct{}

	mutex sync.Mutex
	flows map[uint64]*flow
	// unsent are the flows to add, and removed are the ids to remove. Both are bounded by the
	// number of flows, however slowly connd reads.
	unsent  map[uint64]*flow
	removed map[uint64]struct{}
	lastID  uint64
	// generation is the last one received.
	generation uint64
	// namespace is connd's network namespace, or 0 if it is unknown in this stream.
	namespace uint64
	// pause is the one before the next attempt to reach connd.
	pause     time.Duration
	isRunning bool
	breakers  breakers
	// lastText is the last message written to the log, which is not repeated.
	lastText string
}

var (
	hubsMutex sync.Mutex
	hubs      = map[string]*hub{}
)

// sharedHub returns the hub of the process for a socket.
func sharedHub(path string) *hub {
	hubsMutex.Lock()
	defer hubsMutex.Unlock()
	h := hubs[path]
	if h == nil {
		h = &hub{
			path: path, wake: make(chan struct{}, 1), pause: minPause, breakers: breakers{},
			flows: map[uint64]*flow{}, unsent: map[uint64]*flow{}, removed: map[uint64]struct{}{},
		}
		hubs[path] = h
	}
	return h
}

func (h *hub) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// allows reports whether a new connection should be guarded.
func (h *hub) allows(remote netip.AddrPort) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.breakers.allow(remote, time.Now())
}

func (h *hub) add(f *flow) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.lastID++
	f.id = h.lastID
	h.flows[f.id] = f
	h.unsent[f.id] = f
	if !h.isRunning {
		h.isRunning = true
		go h.run()
	}
	h.signal()
}

func (h *hub) remove(f *flow) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.flows[f.id] == f {
		h.forget(f)
		if f.isSent {
			h.removed[f.id] = struct{}{}
		}
	}
}

// forget removes a flow that connd does not know, or has forgotten.
func (h *hub) forget(f *flow) {
	delete(h.flows, f.id)
	delete(h.unsent, f.id)
	h.signal()
}

// begin begins a new stream, in which connd does not know any flow yet.
func (h *hub) begin() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.namespace = 0
	h.removed = map[uint64]struct{}{}
	for id, f := range h.flows {
		f.isSent = false
		h.unsent[id] = f
	}
}

// isElsewhere reports whether connd is in another network namespace than the connection, so that
// it knows nothing about it.
func (h *hub) isElsewhere(f *flow) bool {
	return h.namespace != 0 && f.socket.namespace != 0 && h.namespace != f.socket.namespace
}

// pending returns the pending requests, framed for gRPC.
func (h *hub) pending() []byte {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var messages []byte
	for id := range h.removed {
		messages = appendMessage(messages, removeRequest(id))
		delete(h.removed, id)
	}
	for id, f := range h.unsent {
		delete(h.unsent, id)
		if h.isElsewhere(f) {
			continue
		}
		if time.Since(f.made) > maxTrialAge {
			f.trial = trialOver
		}
		f.isSent = true
		isExisting := f.attempt == nil && f.trial == trialOver
		messages = appendMessage(messages, addRequest(id, f.socket, f.knownPath, h.generation, isExisting))
	}
	return messages
}

// received handles a GuardResponse.
func (h *hub) received(message []byte) error {
	r, err := parseResponse(message)
	if err != nil {
		return err
	}
	h.mutex.Lock()
	h.pause = minPause
	if r.namespace != 0 {
		h.namespace = r.namespace
	}
	f := h.flows[r.id]
	if f == nil || !f.isSent {
		h.mutex.Unlock()
		return nil
	}
	var text string
	var ends bool
	if h.isElsewhere(f) {
		f.isSent = false
		h.removed[f.id] = struct{}{}
		h.signal()
		r = response{}
		text = "connd is in another network namespace, so connections are not guarded"
	} else {
		h.generation = r.generation
		text, ends = h.take(f, r)
		if f.attempt == nil && f.dialer.ShortensOutages {
			f.socket.note(r)
		}
	}
	text = h.newText(text)
	link := f.link
	h.mutex.Unlock()

	if text != "" {
		f.dialer.logf("conndial: %s: %s", h.path, text)
	}
	switch {
	case f.attempt != nil && ends:
		f.attempt.abort()
	case f.attempt == nil && r.invalidation != nil:
		f.report(r.invalidation, link, ends)
	case f.attempt == nil && r.path != nil && f.dialer.OnPath != nil:
		f.dialer.OnPath(&Path{
			IsSatisfied: r.path.status == statusSatisfied, Local: f.socket.local, Remote: f.socket.remote,
		})
	}
	if r.asks && f.attempt == nil && !ends {
		f.socket.ask(&f.isAsking)
	}
	return nil
}

// take notes a response about a flow. It returns a message for the log, or an empty one, and
// whether the connection ends.
func (h *hub) take(f *flow, r response) (text string, ends bool) {
	if f.attempt != nil {
		ends = f.isObsolete(r)
	}
	switch {
	case r.isRefused:
		h.forget(f)
		return "connd refuses to guard a connection: " + r.refusal, false
	case r.path != nil:
		f.knownPath = r.path.encoded
		if f.link == 0 {
			f.link = r.path.link
		}
	case r.invalidation != nil:
		if f.attempt == nil {
			ends = f.dialer.endsOn(r.invalidation.severity)
		}
		if r.invalidation.severity == Destroy {
			h.forget(f) // connd has removed the flow by itself.
		} else if ends {
			h.forget(f)
			h.removed[f.id] = struct{}{}
		}
	}
	if f.attempt != nil {
		return "", ends
	}
	switch f.trial.judge(r) {
	case verdictConfirmed:
		h.breakers.confirmed(f.socket.remote, time.Now())
	case verdictRefuted:
		if rest := h.breakers.refuted(f.socket.remote, time.Now()); rest != 0 {
			text = fmt.Sprintf("connd wrongly rejects new connections to %s, which are not guarded for %s (from %s: %s, %s)",
				f.socket.remote, rest, f.socket.local, r.invalidation.reason, r.invalidation.cause)
		}
	}
	return text, ends
}

// newText returns the text, or an empty one if it was the last one, too.
func (h *hub) newText(text string) string {
	if text == h.lastText {
		return ""
	}
	if text != "" {
		h.lastText = text
	}
	return text
}
