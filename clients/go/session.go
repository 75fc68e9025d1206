package conndial

import (
	"errors"
	"io/fs"
	"syscall"
	"time"
)

const (
	// The pauses between attempts to reach connd.
	minPause = 100 * time.Millisecond
	maxPause = time.Minute
	// minWakePause is the pause after which a new or closed connection causes an attempt, so that
	// there is at most one a second.
	minWakePause = time.Second
	// maxIdle is how long the stream stays open without a connection.
	maxIdle = 2 * time.Second
)

// run keeps a stream to connd while there are connections.
func (h *hub) run() {
	for !h.isOver() {
		if err := h.session(); err != nil {
			h.lost(err)
			h.rest()
		}
	}
}

// isOver reports whether there is no connection, so that run ends. The next connection calls it
// again.
func (h *hub) isOver() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.isRunning = len(h.flows) > 0
	return !h.isRunning
}

func (h *hub) isEmpty() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.flows) == 0
}

// session keeps one stream until it ends. It returns nil if there was no connection for a while.
func (h *hub) session() error {
	s, err := openStream(h.path, h.signal)
	if err != nil {
		return err
	}
	h.begin()
	var reason error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reason = s.read(h.received)
	}()
	err = h.send(s, ended)
	s.connection.Close()
	<-ended
	if err == errEnded {
		return reason
	}
	return err
}

// send sends requests until the stream has ended, or there was no connection for a while.
func (h *hub) send(s *stream, ended <-chan struct{}) error {
	for {
		for {
			hasSent, err := s.send(h.pending)
			if err != nil {
				return errEnded // read returns the reason.
			}
			if !hasSent {
				break
			}
		}
		idle := time.NewTimer(maxIdle)
		if !h.isEmpty() {
			idle.Stop()
		}
		select {
		case <-h.wake:
			idle.Stop()
		case <-ended:
			idle.Stop()
			return errEnded
		case <-idle.C:
			if h.isEmpty() {
				return nil
			}
		}
	}
}

// lost restores the timeouts of the connections, because connd does not report their paths any more.
// It logs why the stream ended, unless connd is not running or has stopped.
func (h *hub) lost(err error) {
	h.mutex.Lock()
	for _, f := range h.flows {
		if f.attempt == nil {
			f.socket.restore()
		}
	}
	h.mutex.Unlock()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errEnded) {
		return
	}
	h.mutex.Lock()
	var dialer *Dialer
	for _, f := range h.flows {
		dialer = f.dialer
		break
	}
	text := h.newText(err.Error())
	h.mutex.Unlock()
	if dialer != nil && text != "" {
		dialer.logf("conndial: %s: connections are not guarded: %s", h.path, text)
	}
}

// rest returns after a pause, which doubles each time until connd has sent a message, or earlier if
// a connection was made or closed.
func (h *hub) rest() {
	h.mutex.Lock()
	pause := h.pause
	if h.pause *= 2; h.pause > maxPause {
		h.pause = maxPause
	}
	h.mutex.Unlock()
	begin := time.Now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-h.wake:
			if time.Since(begin) >= minWakePause {
				return
			}
		}
	}
}
