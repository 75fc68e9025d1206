package conndial

import (
	"sync/atomic"
	"time"
)

// maxTrialAge is the age up to which a connection is known to work, because it was just made.
const maxTrialAge = 5 * time.Second

// A flow is a connection as it is registered with connd.
type flow struct {
	hub    *hub
	dialer *Dialer
	socket socket
	made   time.Time
	// attempt is set while the connection is being made.
	attempt *attempt

	// invalidation is set when connd has ended the connection.
	invalidation atomic.Pointer[Invalidation]
	isAsking     atomic.Bool

	// The fields below belong to the hub, under its mutex.

	id uint64
	// isSent is whether connd knows the flow in this stream.
	isSent bool
	trial  trial
	// link is the index of the link of its first path, or 0.
	link int
	// knownPath is the last path that connd reported, or nil.
	knownPath []byte
	// isAnswered is whether connd has answered an attempt, and hasPath whether its path was
	// satisfied last.
	isAnswered, hasPath bool
}

// A trial is the state of a new connection as evidence of whether connd is right (rule I11).
type trial int

const (
	trialPending trial = iota
	// trialDoubted means that connd sees no path for the connection.
	trialDoubted
	trialOver
)

// A verdict says whether a report about a new connection shows that connd is right or wrong.
type verdict int

const (
	verdictNone verdict = iota
	verdictConfirmed
	verdictRefuted
)

// judge advances the trial. The connection was just made, so it works, and connd is wrong if it
// destroys it in its answer, or sees no path and declares its network gone before a path appears.
func (t *trial) judge(r response) verdict {
	if *t == trialOver {
		return verdictNone
	}
	wasDoubted := *t == trialDoubted
	status := 0
	switch {
	case r.path != nil:
		status = r.path.status
	case r.invalidation != nil:
		status = r.invalidation.path.status
	}
	switch isDestroyed := r.invalidation != nil && r.invalidation.severity == Destroy; {
	case isDestroyed:
		*t = trialOver
		if wasDoubted && r.invalidation.reason.isLoss() || !wasDoubted && r.invalidation.reason != Policy {
			return verdictRefuted
		}
	case status == statusSatisfied:
		*t = trialOver
		if r.path != nil {
			return verdictConfirmed
		}
	case wasDoubted || status == statusUnsatisfied || status == statusRequiresConnection:
		*t = trialDoubted
	default:
		*t = trialOver
	}
	return verdictNone
}

// report tells the application about an invalidation, and ends the connection if that is due.
func (f *flow) report(i *invalidation, link int, ends bool) {
	public := &Invalidation{
		Severity: i.severity, Reason: i.reason, Cause: i.cause,
		Local: f.socket.local, Remote: f.socket.remote,
	}
	if ends {
		f.invalidation.Store(public)
		f.socket.close(link)
	}
	if f.dialer.OnInvalidation != nil {
		f.dialer.OnInvalidation(public)
	}
}
