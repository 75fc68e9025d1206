// client WHAT: tests connd with Debian's grpc-go, over the socket in CONND_SOCKET. Its requests and
// responses are bytes here, so that it needs no generated code.
//
//	watch N      follows N changes on one stream while grpc-go measures the bandwidth with pings
//	resume       follows a change, disconnects, and after SIGUSR1 receives the two that it missed
//	guard        guards a connection to 203.0.113.9 until connd destroys it
//
// Prints a word when it is ready, and "done" in the end; any fault exits with status 1.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

const service = "/connectivity.v1.Connectivity/"

// Passes bytes unchanged.
type raw struct{}

func (raw) Name() string                          { return "proto" }
func (raw) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dial() *grpc.ClientConn {
	connection, err := grpc.Dial("unix://"+os.Getenv("CONND_SOCKET"), grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	check(err)
	return connection
}

func begin(connection *grpc.ClientConn, method string, request []byte, ends bool) grpc.ClientStream {
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: !ends}
	stream, err := connection.NewStream(context.Background(), description, service+method)
	check(err)
	check(stream.SendMsg(&request))
	if ends {
		check(stream.CloseSend())
	}
	return stream
}

func receive(stream grpc.ClientStream) []byte {
	var message []byte
	check(stream.RecvMsg(&message))
	return message
}

// The field of a message: its bytes or its number.
func field(message []byte, wanted protowire.Number) (bytes []byte, number uint64, found bool) {
	for len(message) > 0 {
		name, kind, count := protowire.ConsumeTag(message)
		if count < 0 {
			check(protowire.ParseError(count))
		}
		message = message[count:]
		length := protowire.ConsumeFieldValue(name, kind, message)
		if length < 0 {
			check(protowire.ParseError(length))
		}
		if name == wanted {
			if kind == protowire.BytesType {
				bytes, _ = protowire.ConsumeBytes(message)
			} else {
				number, _ = protowire.ConsumeVarint(message)
			}
			return bytes, number, true
		}
		message = message[length:]
	}
	return nil, 0, false
}

func generation(response []byte) uint64 {
	_, generation, found := field(response, 1)
	if !found {
		fmt.Fprintln(os.Stderr, "a response has no generation")
		os.Exit(1)
	}
	return generation
}

func watch(count int) {
	stream := begin(dial(), "Watch", nil, true)
	last := generation(receive(stream))
	fmt.Println("watching")
	for i := 0; i < count; i++ {
		next := generation(receive(stream))
		if next != last+1 {
			fmt.Fprintf(os.Stderr, "received generation %d directly after %d\n", next, last)
			os.Exit(1)
		}
		last = next
	}
}

func resume() {
	connection := dial()
	stream := begin(connection, "Watch", nil, true)
	receive(stream)
	fmt.Println("watching")
	seen := generation(receive(stream))
	check(connection.Close())
	back := make(chan os.Signal, 1)
	signal.Notify(back, syscall.SIGUSR1)
	fmt.Println("away")
	<-back
	request := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), seen)
	stream = begin(dial(), "Watch", request, true)
	for next := seen + 1; next <= seen+2; next++ {
		response := receive(stream)
		if _, _, isSnapshot := field(response, 2); isSnapshot || generation(response) != next {
			fmt.Fprintf(os.Stderr, "received generation %d instead of %d\n", generation(response), next)
			os.Exit(1)
		}
	}
}

func guard() {
	flow := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	flow = protowire.AppendString(protowire.AppendTag(flow, 2, protowire.BytesType), "203.0.113.9")
	flow = protowire.AppendString(protowire.AppendTag(flow, 3, protowire.BytesType), "192.0.2.2")
	request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), flow)
	stream := begin(dial(), "Guard", request, false)
	if _, _, isPath := field(receive(stream), 3); !isPath {
		fmt.Fprintln(os.Stderr, "the first message about the flow is not a path")
		os.Exit(1)
	}
	fmt.Println("guarded")
	for {
		invalidation, _, found := field(receive(stream), 4)
		// INVALIDATION_SEVERITY_DESTROY
		if _, severity, _ := field(invalidation, 2); found && severity == 1 {
			return
		}
	}
}

func main() {
	switch os.Args[1] {
	case "watch":
		count, err := strconv.Atoi(os.Args[2])
		check(err)
		watch(count)
	case "resume":
		resume()
	case "guard":
		guard()
	}
	fmt.Println("done")
}
