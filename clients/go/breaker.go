package conndial

import (
	"net/netip"
	"time"
)

// The bounds of a breaker (rule I11).
const (
	maxRefutations = 3
	minRest        = 5 * time.Minute
	maxRest        = time.Hour
	// breakerLife is how long a refutation counts, or after the rest of an open breaker.
	breakerLife = time.Hour
	maxBreakers = 256
)

// A breaker counts how often connd wrongly rejected new connections to one destination in a row.
// The third time opens it: new connections are not guarded for a while. Each later time doubles
// that.
type breaker struct {
	refutations int
	// rest is 0 while the breaker is closed.
	rest       time.Duration
	end        time.Time
	lastChange time.Time
}

// breakers are the breakers of destinations that had refutations lately.
type breakers map[netip.AddrPort]*breaker

// allow reports whether a new connection should be guarded.
func (all breakers) allow(remote netip.AddrPort, now time.Time) bool {
	b := all[remote]
	return b == nil || !now.Before(b.end)
}

// refuted records that connd rejected a connection that works. If this opens the breaker, it
// returns how long new connections are not guarded, and otherwise 0.
func (all breakers) refuted(remote netip.AddrPort, now time.Time) time.Duration {
	all.prune(now)
	b := all[remote]
	if b == nil {
		b = &breaker{}
		all[remote] = b
	}
	b.lastChange = now
	switch {
	case b.rest == 0:
		if b.refutations++; b.refutations < maxRefutations {
			return 0
		}
		b.rest = minRest
	case now.Before(b.end):
		return 0 // The connection was registered before the breaker opened.
	default:
		if b.rest *= 2; b.rest > maxRest {
			b.rest = maxRest
		}
	}
	b.end = now.Add(b.rest)
	return b.rest
}

// confirmed records that connd saw a path for a new connection.
func (all breakers) confirmed(remote netip.AddrPort, now time.Time) {
	if all.allow(remote, now) {
		delete(all, remote)
	}
}

// prune forgets old breakers, and the oldest if there are too many.
func (all breakers) prune(now time.Time) {
	var oldest netip.AddrPort
	for remote, b := range all {
		expiry := b.lastChange
		if b.end.After(expiry) {
			expiry = b.end
		}
		if now.After(expiry.Add(breakerLife)) {
			delete(all, remote)
		} else if o := all[oldest]; o == nil || b.lastChange.Before(o.lastChange) {
			oldest = remote
		}
	}
	if len(all) >= maxBreakers {
		delete(all, oldest)
	}
}
