package conndial

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// maxAttempts is how often a call dials at most.
const maxAttempts = 10

// An attempt to connect hangs if its network is lost after its first packet, or before the network
// manager has removed the route. Its socket keeps its source address, so it does not profit from
// another route. Therefore connd guards the attempt, too, and it is repeated when another path
// exists.
type attempt struct {
	dialer *Dialer
	hub    *hub
	// abort ends the attempt.
	abort context.CancelFunc

	mutex sync.Mutex
	// flows has a flow for each address that was tried.
	flows []*flow
}

// dial dials, and dials again if the attempt is obsolete.
func (d *Dialer) dial(ctx context.Context, h *hub, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second}
	if d.Net != nil {
		dialer = *d.Net
	}
	if dialer.Timeout > 0 {
		// The limit is for all attempts together.
		limited, cancel := context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
		ctx = limited
	}
	control := dialer.Control
	for left := maxAttempts - 1; ; left-- {
		single, abort := context.WithCancel(ctx)
		a := &attempt{dialer: d, hub: h, abort: abort}
		dialer.Control = func(network, address string, c syscall.RawConn) error {
			if control != nil {
				if err := control(network, address, c); err != nil {
					return err
				}
			}
			if left > 0 {
				a.add(network, address, c)
			}
			return nil
		}
		connection, err := dialer.DialContext(single, network, address)
		isAborted := single.Err() != nil && ctx.Err() == nil
		a.end()
		abort()
		if err == nil || !isAborted {
			return connection, err
		}
	}
}

// add registers the attempt to connect to an address.
func (a *attempt) add(network, address string, c syscall.RawConn) {
	remote, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return
	}
	s, ok := inspectAttempt(remote, c)
	if !ok || !a.hub.allows(s.remote) {
		return
	}
	f := &flow{hub: a.hub, dialer: a.dialer, socket: s, attempt: a}
	a.mutex.Lock()
	a.flows = append(a.flows, f)
	a.mutex.Unlock()
	a.hub.add(f)
}

// end removes the flows.
func (a *attempt) end() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, f := range a.flows {
		a.hub.remove(f)
	}
}

// isObsolete reports whether an attempt should be repeated because of a response: its path is gone,
// or there is one now. The first answer ends nothing, because connd may be wrong.
func (f *flow) isObsolete(r response) bool {
	isFirst, hadPath := !f.isAnswered, f.hasPath
	f.isAnswered = true
	f.hasPath = r.path != nil && r.path.status == statusSatisfied || r.path == nil && hadPath
	isDestroyed := r.invalidation != nil && r.invalidation.severity == Destroy
	return !isFirst && (isDestroyed || f.hasPath && !hadPath)
}
