package conndial

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrInvalidated is the error of a connection that was closed because of connd's report. The errors
// of reads and writes wrap an [Invalidation], which says more.
var ErrInvalidated = errors.New("connd invalidated the connection")

// A Severity says how to treat a connection that is no longer viable.
type Severity int

const (
	// Destroy means that the connection is dead.
	Destroy Severity = 1
	// Drain means that work in progress may finish, and new work needs a new connection.
	Drain Severity = 2
	// Advise means that the connection is in doubt. It may recover, or Destroy may follow.
	Advise Severity = 3
)

func (s Severity) String() string {
	switch s {
	case Destroy:
		return "destroy"
	case Drain:
		return "drain"
	default:
		return "advise"
	}
}

// A Reason says why a connection is no longer viable. Later versions of connd may report others,
// which imply less than each of these.
type Reason int

const (
	SourceAddressLost Reason = 1
	InterfaceLost     Reason = 2
	NetworkChanged    Reason = 3
	BetterPath        Reason = 5
	Policy            Reason = 6
	Resumed           Reason = 7
	Silent            Reason = 8
)

func (r Reason) String() string {
	switch r {
	case SourceAddressLost:
		return "source address lost"
	case InterfaceLost:
		return "interface lost"
	case NetworkChanged:
		return "network changed"
	case BetterPath:
		return "better path"
	case Policy:
		return "path not allowed"
	case Resumed:
		return "machine resumed"
	case Silent:
		return "peer is silent"
	default:
		return fmt.Sprintf("reason %d", int(r))
	}
}

// isLoss reports whether a connection cannot survive.
func (r Reason) isLoss() bool {
	return r == SourceAddressLost || r == InterfaceLost || r == NetworkChanged
}

// An Invalidation is connd's report that a connection is dead or in doubt. As an error, it matches
// [ErrInvalidated], and syscall.ECONNABORTED for programs that repeat a request after such an error.
type Invalidation struct {
	Severity Severity
	Reason   Reason
	// Cause is the change that connd noticed, such as "carrierLost on eth0". It is for people only.
	Cause         string
	Local, Remote netip.AddrPort
}

func (i *Invalidation) Error() string {
	text := ErrInvalidated.Error() + ": " + i.Reason.String()
	if i.Cause != "" {
		text += " (" + i.Cause + ")"
	}
	return text
}

// Is reports whether the target is ErrInvalidated.
func (i *Invalidation) Is(target error) bool { return target == ErrInvalidated }

// Unwrap returns the error with which the kernel would end such a connection.
func (i *Invalidation) Unwrap() error { return syscall.ECONNABORTED }
