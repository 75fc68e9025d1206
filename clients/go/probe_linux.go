package conndial

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
)

// How long a probe changes the options of a socket, and when it is repeated (rule E4).
const (
	probeTime   = 1500 * time.Millisecond
	firstRepeat = 80 * time.Millisecond
	lastRepeat  = 600 * time.Millisecond
)

// A probe asks the peer of an idle connection for a sign of life by TCP's keepalive, and leaves the
// options of the socket as they were. The kernel sends the probe once the socket has been idle for
// a second, and restarts its timer when TCP_KEEPIDLE is set.
type probe struct {
	wasOn, idle int
	// left is how many more probes may be sent without an answer.
	left int
	// raisesTimeout is whether the timeout is that of rule C11, which must not end the connection
	// because of the probe.
	raisesTimeout bool
}

// beginProbe sends a probe. It returns nil if the socket has no such options, or if the kernel
// might end the connection because of the probe: after TCP_KEEPCNT probes without an answer, or
// with TCP_USER_TIMEOUT after one.
func beginProbe(fd int) *probe {
	var failure error
	option := func(level, name int) int {
		value, err := syscall.GetsockoptInt(fd, level, name)
		if err != nil {
			failure = err
		}
		return value
	}
	p := &probe{
		wasOn: option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE),
		idle:  option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE),
	}
	count := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	interval := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
	timeout := option(syscall.IPPROTO_TCP, tcpUserTimeout)
	p.raisesTimeout = timeout == userTimeout && p.wasOn == 0
	hasTimeout := timeout != 0 && !p.raisesTimeout
	// The fourth octet of tcp_info is the number of probes without an answer.
	info, err := syscall.GetsockoptInet4Addr(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	if failure != nil || err != nil || p.idle < 1 || p.idle > maxKeepaliveIdle {
		return nil
	}
	unanswered := int(info[3])
	if hasTimeout && (p.wasOn != 0 || unanswered != 0) {
		return nil
	}
	left := count - 2 - unanswered
	if interval <= 1 {
		left-- // A second probe follows before the options are restored.
	}
	if p.raisesTimeout {
		left = math.MaxInt32 // With a timeout, the number of probes does not count.
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout, math.MaxInt32)
	}
	if left < 0 {
		return nil
	}
	// connd may ask twice more before it gives the connection up (E2).
	if left > 2 && !hasTimeout {
		p.left = left - 2
	}
	// The order matters: only the second option restarts the timer with the elapsed idle time.
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1) != nil ||
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 1) != nil {
		p.end(fd)
		return nil
	}
	return p
}

// repeat sends another probe, unless the peer was heard within the last second, or the kernel might
// end the connection because of it.
func (p *probe) repeat(fd int) {
	if p.left > 0 {
		p.left--
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 1)
	}
}

// end restores the options. Keepalive is off meanwhile, so that no probe is due immediately.
func (p *probe) end(fd int) {
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 0)
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, p.idle)
	if timeout, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout); p.raisesTimeout &&
		err == nil && timeout == math.MaxInt32 {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout, userTimeout)
	}
	if p.wasOn != 0 {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, p.wasOn)
	}
}

// ask sends a probe and repeats it, unless another one is not over yet.
func (s *socket) ask(isAsking *atomic.Bool) {
	if !isAsking.CompareAndSwap(false, true) {
		return
	}
	var p *probe
	_ = s.control(func(fd int) { p = beginProbe(fd) })
	if p == nil {
		isAsking.Store(false)
		return
	}
	repeat := func() { _ = s.control(p.repeat) }
	time.AfterFunc(firstRepeat, repeat)
	time.AfterFunc(lastRepeat, repeat)
	time.AfterFunc(probeTime, func() {
		_ = s.control(p.end)
		isAsking.Store(false)
	})
}
