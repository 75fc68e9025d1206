package conndial

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The parts of HTTP/2 (RFC 9113) that one call needs. The header blocks of connd's answer are
// skipped: nothing is needed from them but the end of the stream.

const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8

	flagAck        = 1
	flagEndStream  = 1
	flagEndHeaders = 4
	flagPadded     = 8

	settingInitialWindow = 4

	guardStream   = 1
	initialWindow = 65535
	maxWindow     = 1<<31 - 1
	// Frames that are larger need another setting.
	maxFrame = 16384
	// Bounds of what connd sends.
	maxMessage = 1 << 20
	maxControl = 64 << 10
)

// The header block of the request: POST, http, the path, the authority "localhost", the content
// type, and "te: trailers" (RFC 7541). No field enters the dynamic table.
const requestHeaders = "\x83\x86" +
	"\x04\x23/connectivity.v1.Connectivity/Guard" +
	"\x01\x09localhost" +
	"\x0f\x10\x10application/grpc" +
	"\x00\x02te\x08trailers"

var (
	errEnded    = errors.New("connd ended the stream")
	errProtocol = errors.New("connd sent an invalid HTTP/2 frame")
)

// A stream is a call of Guard, on a connection of its own. One goroutine reads, and another sends.
type stream struct {
	connection net.Conn
	// changed is called when there may be more to send.
	changed func()
	// outgoing are messages that wait for the windows. It belongs to the goroutine that sends.
	outgoing []byte

	mutex sync.Mutex
	// control are frames that answer connd's.
	control []byte
	// The bytes that connd accepts on the connection and on the stream, and on a new stream.
	connectionWindow, streamWindow, initialWindow int64
}

// openStream connects to connd and begins the call.
func openStream(path string, changed func()) (*stream, error) {
	connection, err := net.DialTimeout("unix", path, 5*time.Second)
	if err != nil {
		return nil, err
	}
	trusted, err := isTrusted(connection.(*net.UnixConn), path)
	if err == nil && !trusted {
		err = errors.New("another user listens on the socket")
	}
	if err == nil {
		preface := appendFrame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameSettings, 0, 0, nil)
		preface = appendFrame(preface, frameHeaders, flagEndHeaders, guardStream, []byte(requestHeaders))
		_, err = connection.Write(preface)
	}
	if err != nil {
		connection.Close()
		return nil, err
	}
	return &stream{
		connection: connection, changed: changed,
		connectionWindow: initialWindow, streamWindow: initialWindow, initialWindow: initialWindow,
	}, nil
}

func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	size := len(payload)
	b = append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// appendMessage appends a message with gRPC's prefix.
func appendMessage(b, message []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message)))
	return append(b, message...)
}

// send sends what the windows allow, and reports whether it sent anything. If no message waits, it
// asks for the pending ones.
func (s *stream) send(pending func() []byte) (bool, error) {
	if len(s.outgoing) == 0 {
		s.outgoing = pending()
	}
	s.mutex.Lock()
	frames := s.control
	s.control = nil
	size := int64(len(s.outgoing))
	for _, limit := range []int64{maxFrame, s.connectionWindow, s.streamWindow} {
		if size > limit {
			size = limit
		}
	}
	if size > 0 {
		frames = appendFrame(frames, frameData, 0, guardStream, s.outgoing[:size])
		s.outgoing = s.outgoing[size:]
		s.connectionWindow -= size
		s.streamWindow -= size
	}
	s.mutex.Unlock()
	if len(frames) == 0 {
		return false, nil
	}
	_, err := s.connection.Write(frames)
	return true, err
}

// respond queues a control frame. The goroutine that reads never writes, so that it always reads.
func (s *stream) respond(kind, flags byte, stream uint32, payload []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.control) > maxControl {
		return errProtocol
	}
	s.control = appendFrame(s.control, kind, flags, stream, payload)
	s.changed()
	return nil
}

// read calls a function with each message, until the stream ends.
func (s *stream) read(handle func(message []byte) error) error {
	reader := bufio.NewReaderSize(s.connection, maxFrame)
	var header [9]byte
	payload := make([]byte, maxFrame)
	var incoming []byte
	unacknowledged := 0
	for {
		if _, err := io.ReadFull(reader, header[:]); err != nil {
			return errEnded
		}
		size := int(header[0])<<16 | int(header[1])<<8 | int(header[2])
		kind, flags := header[3], header[4]
		stream := binary.BigEndian.Uint32(header[5:]) & maxWindow
		if size > maxFrame {
			return errProtocol
		}
		frame := payload[:size]
		if _, err := io.ReadFull(reader, frame); err != nil {
			return errEnded
		}
		if kind != frameData {
			if err := s.handle(kind, flags, stream, frame); err != nil {
				return err
			}
			continue
		}
		if stream != guardStream {
			return errProtocol
		}
		if flags&flagPadded != 0 {
			if size == 0 || int(frame[0]) >= size {
				return errProtocol
			}
			frame = frame[1 : size-int(frame[0])]
		}
		incoming = append(incoming, frame...)
		rest, err := eachMessage(incoming, handle)
		if err != nil {
			return err
		}
		incoming = append(incoming[:0], rest...)
		if flags&flagEndStream != 0 {
			return errEnded
		}
		if unacknowledged += size; unacknowledged > initialWindow/4 {
			update := binary.BigEndian.AppendUint32(nil, uint32(unacknowledged))
			for _, id := range []uint32{0, guardStream} {
				if err := s.respond(frameWindowUpdate, 0, id, update); err != nil {
					return err
				}
			}
			unacknowledged = 0
		}
	}
}

// eachMessage calls a function with each complete message, and returns the rest.
func eachMessage(b []byte, handle func(message []byte) error) ([]byte, error) {
	for len(b) >= 5 {
		size := int64(binary.BigEndian.Uint32(b[1:]))
		if b[0] != 0 || size > maxMessage {
			return nil, errMalformed
		}
		if int64(len(b)) < 5+size {
			break
		}
		if err := handle(b[5 : 5+size]); err != nil {
			return nil, err
		}
		b = b[5+size:]
	}
	return b, nil
}

// handle handles a frame that has no data.
func (s *stream) handle(kind, flags byte, stream uint32, frame []byte) error {
	switch kind {
	case frameHeaders:
		if flags&flagEndStream != 0 {
			return errEnded
		}
	case frameReset:
		return errEnded
	case frameGoAway:
		if len(frame) < 8 {
			return errProtocol
		}
		if code := binary.BigEndian.Uint32(frame[4:]); code != 0 {
			return fmt.Errorf("connd closed the connection: HTTP/2 error %d: %s", code, frame[8:])
		}
		return errEnded
	case framePing:
		if len(frame) != 8 {
			return errProtocol
		}
		if flags&flagAck == 0 {
			return s.respond(framePing, flagAck, 0, frame)
		}
	case frameSettings:
		if flags&flagAck != 0 {
			return nil
		}
		if err := s.apply(frame); err != nil {
			return err
		}
		return s.respond(frameSettings, flagAck, 0, nil)
	case frameWindowUpdate:
		if len(frame) != 4 {
			return errProtocol
		}
		return s.grow(stream, int64(binary.BigEndian.Uint32(frame)&maxWindow))
	}
	return nil
}

// apply applies connd's settings.
func (s *stream) apply(settings []byte) error {
	if len(settings)%6 != 0 {
		return errProtocol
	}
	for ; len(settings) > 0; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == settingInitialWindow {
			value := int64(binary.BigEndian.Uint32(settings[2:]))
			if err := s.grow(guardStream, value-s.initialWindow); err != nil {
				return err
			}
			s.initialWindow = value
		}
	}
	return nil
}

// grow lets more bytes be sent. After a change of the settings the window may be negative.
func (s *stream) grow(stream uint32, size int64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	window := &s.connectionWindow
	if stream == guardStream {
		window = &s.streamWindow
	}
	if *window += size; *window > maxWindow {
		return errProtocol
	}
	s.changed()
	return nil
}
