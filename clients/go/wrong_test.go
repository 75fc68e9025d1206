package conndial

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// serveWrong is a connd that reports a path for each flow and then destroys it. It counts them.
func serveWrong(t *testing.T, path string, count *atomic.Int32) {
	listener, err := net.Listen("unix", path)
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go answerWrong(connection, count)
		}
	}()
}

func answerWrong(connection net.Conn, count *atomic.Int32) {
	defer connection.Close()
	input := bufio.NewReader(connection)
	_, _ = input.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	var header [9]byte
	for {
		if _, err := io.ReadFull(input, header[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(header[:])>>8)
		if _, err := io.ReadFull(input, payload); err != nil {
			return
		}
		if header[3] != frameData {
			continue
		}
		var answer []byte
		_, _ = eachMessage(payload, func(message []byte) error {
			return fields(message, func(add field) {
				if add.number != 1 {
					return
				}
				count.Add(1)
				_ = fields(add.bytes, func(f field) {
					if f.number != 1 {
						return
					}
					response := appendNumber(appendNumber(nil, 1, 1), 2, f.value)
					seen := appendBytes(response[:len(response):len(response)], 3, appendNumber(nil, 1, statusSatisfied))
					answer = appendMessage(answer, seen)
					lost := appendNumber(appendNumber(nil, 1, uint64(InterfaceLost)), 2, uint64(Destroy))
					answer = appendMessage(answer, appendBytes(response, 4, lost))
				})
			})
		})
		if _, err := connection.Write(data(0, string(answer))); err != nil {
			return
		}
	}
}

func TestWrongAboutAttempts(t *testing.T) {
	l := newLab(t)
	var count atomic.Int32
	serveWrong(t, l.socket, &count)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// No host has this address, so the attempt hangs until it fails.
	if _, err := l.dialer.DialContext(ctx, "tcp", "192.0.2.99:80"); err == nil || ctx.Err() != nil {
		t.Fatalf("the attempt ended with %v", err)
	}
	if count := count.Load(); count != maxAttempts-1 {
		t.Fatalf("%d attempts were registered", count)
	}
}
