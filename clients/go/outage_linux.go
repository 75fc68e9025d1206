package conndial

import (
	"math"
	"syscall"
)

const (
	// maxWait is the longest wait for a retransmission, in milliseconds.
	maxWait = 2000
	// userTimeout is how long the kernel retransmits by default, in milliseconds.
	userTimeout = 924600
)

// note sets the options by which an outage ends soon after the path is back, if connd reports a
// satisfied path, and restores them if the path is lost (rule C11).
func (s *socket) note(r response) {
	if r.path != nil && r.path.status == statusSatisfied {
		_ = s.control(s.shortenOutages)
	} else if r.path != nil || r.invalidation != nil && r.invalidation.isLoss() {
		s.restore()
	}
}

// restore restores the options.
func (s *socket) restore() { _ = s.control(s.restoreTimeouts) }

// isLoss reports whether the path, address, link or network of a connection is lost.
func (i *invalidation) isLoss() bool {
	return i.reason.isLoss() || i.path.status != 0 && i.path.status != statusSatisfied
}

// shortenOutages sets the options, unless the program has a timeout or keepalive of its own. Alone,
// the second one would end the connection after 28 s.
func (s *socket) shortenOutages(fd int) {
	isUnset := func(level, name int) bool {
		value, err := syscall.GetsockoptInt(fd, level, name)
		return err == nil && value == 0
	}
	former, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpRTOMaxMS)
	if s.formerWait != 0 || err != nil || former <= maxWait ||
		!isUnset(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) ||
		!isUnset(syscall.IPPROTO_TCP, tcpUserTimeout) ||
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout, userTimeout) != nil {
		return
	}
	if syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpRTOMaxMS, maxWait) == nil {
		s.formerWait = former
	} else {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout, 0)
	}
}

// restoreTimeouts restores the options, unless the program has changed them.
func (s *socket) restoreTimeouts(fd int) {
	if s.formerWait == 0 {
		return
	}
	wait, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpRTOMaxMS)
	if err == nil && wait == maxWait {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpRTOMaxMS, s.formerWait)
	}
	timeout, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout)
	// A probe has raised it.
	if err == nil && (timeout == userTimeout || timeout == math.MaxInt32) {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout, 0)
	}
	s.formerWait = 0
}
