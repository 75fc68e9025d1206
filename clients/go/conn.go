package conndial

import (
	"errors"
	"io"
	"net"
	"runtime"
	"time"
)

// A guardedConn is a connection that connd guards. Its errors name the reason after connd has ended
// it. It offers all methods of its TCPConn, because libraries look for them.
type guardedConn struct {
	*net.TCPConn
	flow *flow
}

func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	return n, c.explained(err)
}

func (c *guardedConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	return n, c.explained(err)
}

// ReadFrom is used by io.Copy, and lets the kernel copy between sockets and files.
func (c *guardedConn) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.TCPConn.ReadFrom(r)
	return n, c.explained(err)
}

// WriteTo is used by io.Copy, as ReadFrom.
func (c *guardedConn) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, c.TCPConn)
	return n, c.explained(err)
}

func (c *guardedConn) SetDeadline(t time.Time) error {
	return c.explained(c.TCPConn.SetDeadline(t))
}

func (c *guardedConn) SetReadDeadline(t time.Time) error {
	return c.explained(c.TCPConn.SetReadDeadline(t))
}

func (c *guardedConn) SetWriteDeadline(t time.Time) error {
	return c.explained(c.TCPConn.SetWriteDeadline(t))
}

func (c *guardedConn) Close() error {
	runtime.SetFinalizer(c, nil)
	c.flow.hub.remove(c.flow)
	err := c.TCPConn.Close()
	if c.flow.invalidation.Load() != nil {
		return nil
	}
	return err
}

// explained returns an error of the connection, with connd's reason if connd has ended it.
func (c *guardedConn) explained(err error) error {
	invalidation := c.flow.invalidation.Load()
	if invalidation == nil || !errors.Is(err, net.ErrClosed) {
		return err
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		explained := *operation
		explained.Err = invalidation
		return &explained
	}
	return invalidation
}
