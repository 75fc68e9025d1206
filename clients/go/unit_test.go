package conndial

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// These tests need neither connd nor a network.

func TestBreaker(t *testing.T) {
	now := time.Now()
	remote := netip.MustParseAddrPort(echoServer)
	all := breakers{}
	refute := func(expected time.Duration) {
		t.Helper()
		if rest := all.refuted(remote, now); rest != expected {
			t.Fatalf("the rest is %v instead of %v", rest, expected)
		}
		if allows := all.allow(remote, now); allows != (expected == 0) {
			t.Fatalf("a new connection is guarded: %v", allows)
		}
	}
	refute(0)
	refute(0)
	all.confirmed(remote, now)
	refute(0)
	refute(0)
	refute(5 * time.Minute)
	if rest := all.refuted(remote, now); rest != 0 {
		t.Fatal("an earlier connection opened the breaker again")
	}
	for _, rest := range []time.Duration{10, 20, 40, 60, 60} {
		now = all[remote].end
		refute(rest * time.Minute)
	}
	all.confirmed(remote, now)
	if all.allow(remote, now) {
		t.Fatal("an earlier connection closed the breaker")
	}
	now = all[remote].end
	all.confirmed(remote, now)
	if len(all) != 0 {
		t.Fatal("a confirmed breaker is kept")
	}
}

func TestBreakersAreBounded(t *testing.T) {
	now := time.Now()
	all := breakers{}
	for port := 1; port <= maxBreakers+10; port++ {
		now = now.Add(time.Second)
		all.refuted(netip.AddrPortFrom(netip.MustParseAddr("203.0.113.9"), uint16(port)), now)
	}
	if len(all) != maxBreakers || all[netip.MustParseAddrPort("203.0.113.9:1")] != nil {
		t.Fatalf("there are %d breakers", len(all))
	}
	all.refuted(netip.MustParseAddrPort(echoServer), now.Add(2*breakerLife))
	if len(all) != 1 {
		t.Fatalf("%d old breakers are kept", len(all)-1)
	}
}

func TestTrial(t *testing.T) {
	seen := response{path: &path{status: statusSatisfied}}
	missing := response{path: &path{status: statusUnsatisfied}}
	report := func(severity Severity, reason Reason, status int) response {
		return response{invalidation: &invalidation{severity: severity, reason: reason, path: path{status: status}}}
	}
	doubt := report(Advise, InterfaceLost, statusRequiresConnection)
	for name, test := range map[string]struct {
		responses []response
		verdict   verdict
	}{
		"a path":                              {[]response{seen}, verdictConfirmed},
		"destroyed later":                     {[]response{seen, report(Destroy, InterfaceLost, 0)}, verdictConfirmed},
		"destroyed at once":                   {[]response{report(Destroy, BetterPath, 0)}, verdictRefuted},
		"not allowed":                         {[]response{report(Destroy, Policy, 0)}, verdictNone},
		"in doubt, then destroyed":            {[]response{doubt, doubt, report(Destroy, InterfaceLost, 0)}, verdictRefuted},
		"no path, then destroyed":             {[]response{missing, report(Destroy, NetworkChanged, 0)}, verdictRefuted},
		"in doubt, then a path":               {[]response{doubt, seen, report(Destroy, InterfaceLost, 0)}, verdictConfirmed},
		"in doubt, then a better path":        {[]response{doubt, report(Destroy, BetterPath, 0)}, verdictNone},
		"advice with a path, then destroyed":  {[]response{report(Advise, BetterPath, statusSatisfied), report(Destroy, BetterPath, 0)}, verdictNone},
		"advice without status, then destroy": {[]response{report(Advise, Silent, 0), report(Destroy, Silent, 0)}, verdictNone},
	} {
		var trial trial
		result := verdictNone
		for _, r := range test.responses {
			if v := trial.judge(r); v != verdictNone {
				result = v
			}
		}
		if result != test.verdict {
			t.Errorf("%s: %v instead of %v", name, result, test.verdict)
		}
	}
}

func TestObsoleteAttempts(t *testing.T) {
	seen := response{path: &path{status: statusSatisfied}}
	missing := response{path: &path{status: statusRequiresConnection}}
	advice := response{invalidation: &invalidation{severity: Advise}}
	end := response{invalidation: &invalidation{severity: Destroy}}
	for name, test := range map[string]struct {
		responses  []response
		isObsolete bool
	}{
		"a path":                      {[]response{seen}, false},
		"no path":                     {[]response{missing}, false},
		"destroyed at once":           {[]response{end}, false},
		"another path":                {[]response{seen, seen}, false},
		"the path is lost":            {[]response{seen, missing}, false},
		"in doubt":                    {[]response{seen, advice}, false},
		"destroyed":                   {[]response{seen, end}, true},
		"no path, then a path":        {[]response{missing, seen}, true},
		"in doubt, then a path":       {[]response{advice, seen}, true},
		"lost, in doubt, then a path": {[]response{seen, missing, advice, seen}, true},
		"in doubt, then the path":     {[]response{seen, advice, seen}, false},
	} {
		f := &flow{}
		isObsolete := false
		for _, r := range test.responses {
			isObsolete = f.isObsolete(r)
		}
		if isObsolete != test.isObsolete {
			t.Errorf("%s: %v", name, isObsolete)
		}
	}
}

func TestRequests(t *testing.T) {
	s := socket{
		tcp: &net.TCPConn{}, local: netip.MustParseAddrPort("192.0.2.7:4711"),
		remote: plain(netip.MustParseAddrPort("[::ffff:203.0.113.9]:443")), mark: 16, link: "eth0",
	}
	// As protoc encodes them, in the order of the numbers.
	expected := "0a32" + "0807" + "120b3230332e302e3131332e39" + "1a093139322e302e322e37" + "2010" + "2a0465746830" +
		"302a" + "3a020801" + "50e724" + "58bb03" + "6006" + "6801"
	if request := hex.EncodeToString(addRequest(7, s, []byte{8, 1}, 42, false)); request != expected {
		t.Errorf("the request is %s", request)
	}
	expected = "0a34" + expected[4:] + "7001"
	if request := hex.EncodeToString(addRequest(7, s, []byte{8, 1}, 42, true)); request != expected {
		t.Errorf("the request of an existing connection is %s", request)
	}
	if request := hex.EncodeToString(removeRequest(7)); request != "12020807" {
		t.Errorf("the removal is %s", request)
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte{8, 1, 16, 7, 34, 8, 8, 2, 16, 1, 26, 2, 18, 0})
	f.Add([]byte{16, 1, 26, 6, 8, 1, 34, 2, 16, 3, 66, 0})
	f.Add([]byte{16, 2, 34, 4, 8, 2, 16, 1, 66, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		d := &Dialer{Logf: func(string, ...any) {}}
		h := &hub{flows: map[uint64]*flow{}, removed: map[uint64]struct{}{}, breakers: breakers{}}
		h.flows[1] = &flow{id: 1, hub: h, dialer: d, isSent: true, attempt: &attempt{abort: func() {}}}
		h.flows[2] = &flow{id: 2, hub: h, dialer: d, isSent: true, socket: socket{tcp: &net.TCPConn{}}}
		if err := h.received(message); err != nil && err != errMalformed {
			t.Fatal(err)
		}
	})
}

// data returns a DATA frame with this payload.
func data(flags byte, payload string) []byte {
	return appendFrame(nil, frameData, flags, guardStream, []byte(payload))
}

func TestInvalidFrames(t *testing.T) {
	for name, test := range map[string]struct {
		input []byte
		err   error
	}{
		"the end":                   {nil, errEnded},
		"half a header":             {[]byte{0, 0}, errEnded},
		"half a frame":              {[]byte{0, 0, 9, 0, 0, 0, 0, 0, 1, 0}, errEnded},
		"a long frame":              {[]byte{0, 64, 1, 0, 0, 0, 0, 0, 1}, errProtocol},
		"data of another stream":    {appendFrame(nil, frameData, 0, 3, nil), errProtocol},
		"too much padding":          {data(flagPadded, "\x03\x00\x00"), errProtocol},
		"no length of padding":      {data(flagPadded, ""), errProtocol},
		"a compressed message":      {data(0, "\x01\x00\x00\x00\x00"), errMalformed},
		"a huge message":            {data(0, "\x00\xff\xff\xff\xff"), errMalformed},
		"a malformed message":       {data(0, "\x00\x00\x00\x00\x01\xff"), errMalformed},
		"an odd setting":            {appendFrame(nil, frameSettings, 0, 0, []byte{0, 4, 0}), errProtocol},
		"a short ping":              {appendFrame(nil, framePing, 0, 0, []byte{1}), errProtocol},
		"a short window":            {appendFrame(nil, frameWindowUpdate, 0, 0, []byte{1}), errProtocol},
		"a window that overflows":   {appendFrame(nil, frameWindowUpdate, 0, 0, []byte{255, 255, 255, 255}), errProtocol},
		"a short farewell":          {appendFrame(nil, frameGoAway, 0, 0, []byte{1}), errProtocol},
		"a farewell":                {appendFrame(nil, frameGoAway, 0, 0, make([]byte, 8)), errEnded},
		"an unknown frame, the end": {appendFrame(nil, 99, 0, 5, []byte{1}), errEnded},
		"trailers":                  {appendFrame(nil, frameHeaders, flagEndStream, 1, nil), errEnded},
		"a flood of pings":          {bytes.Repeat(appendFrame(nil, framePing, 0, 0, make([]byte, 8)), 5000), errProtocol},
	} {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Write(test.input)
			far.Close()
		}()
		s := &stream{connection: near, changed: func() {}, connectionWindow: initialWindow}
		err := s.read(func(message []byte) error {
			_, err := parseResponse(message)
			return err
		})
		near.Close()
		if !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMessagesInPieces(t *testing.T) {
	input := data(flagPadded, "\x02\x00\x00\x00\x00\x02a\x00\x00")
	input = append(input, data(0, "b\x00\x00\x00\x00\x01c\x00")...)
	input = append(input, data(flagEndStream, "\x00\x00\x00\x00")...)
	near, far := net.Pipe()
	go func() {
		for _, octet := range input {
			_, _ = far.Write([]byte{octet})
		}
	}()
	var messages []string
	s := &stream{connection: near, changed: func() {}}
	err := s.read(func(message []byte) error {
		messages = append(messages, string(message))
		return nil
	})
	if fmt.Sprintf("%q", messages) != `["ab" "c" ""]` || err != errEnded {
		t.Fatalf("received %q, %v", messages, err)
	}
}

// A recorder stores what a stream sends.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) { return r.Buffer.Write(b) }
func (r *recorder) Read(b []byte) (int, error)  { return r.Buffer.Read(b) }

func TestWindows(t *testing.T) {
	var sent recorder
	s := &stream{
		connection: &sent, changed: func() {},
		connectionWindow: initialWindow, streamWindow: initialWindow, initialWindow: initialWindow,
	}
	message := strings.Repeat("x", 100_000)
	sends := func(expected ...int) {
		t.Helper()
		var sizes []int
		for {
			sent.Reset()
			hasSent, err := s.send(func() []byte { return nil })
			check(t, err)
			if !hasSent {
				break
			}
			sizes = append(sizes, sent.Len()-9)
		}
		if fmt.Sprint(sizes) != fmt.Sprint(expected) {
			t.Fatalf("sent frames of %v instead of %v", sizes, expected)
		}
	}
	s.outgoing = []byte(message)
	sends(16384, 16384, 16384, 16383)
	check(t, s.grow(0, 1000))
	sends()
	check(t, s.grow(guardStream, 10))
	sends(10)
	// A smaller window for streams makes that of the stream negative.
	check(t, s.apply([]byte{0, 4, 0, 0, 0, 100, 0, 3, 0, 0, 0, 1}))
	check(t, s.grow(guardStream, initialWindow-100+5))
	sends(5)
	// An answer to connd needs no window.
	check(t, s.handle(framePing, 0, 0, make([]byte, 8)))
	sends(8)
}

func TestInvalidationText(t *testing.T) {
	for reason, text := range map[Reason]string{
		InterfaceLost: "connd invalidated the connection: interface lost (carrierLost on eth0)",
		BetterPath:    "connd invalidated the connection: better path (carrierLost on eth0)",
	} {
		if got := (&Invalidation{Reason: reason, Cause: "carrierLost on eth0"}).Error(); got != text {
			t.Errorf("the text is %q", got)
		}
	}
}
