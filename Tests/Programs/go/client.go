// client WHAT: tests connd with Debian's grpc-go, over the socket in CONND_SOCKET. Its messages are
// generated from the .proto by protoc-gen-go.
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

	pb "connd.org/connectivity/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const service = "/connectivity.v1.Connectivity/"

// Debian's grpc-go uses an older protobuf package, which cannot encode these messages.
type codec struct{}

func (codec) Name() string                          { return "proto" }
func (codec) Marshal(v interface{}) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }
func (codec) Unmarshal(data []byte, v interface{}) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dial() *grpc.ClientConn {
	connection, err := grpc.Dial("unix://"+os.Getenv("CONND_SOCKET"), grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	check(err)
	return connection
}

func begin(connection *grpc.ClientConn, method string, request proto.Message, ends bool) grpc.ClientStream {
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: !ends}
	stream, err := connection.NewStream(context.Background(), description, service+method)
	check(err)
	check(stream.SendMsg(request))
	if ends {
		check(stream.CloseSend())
	}
	return stream
}

func change(stream grpc.ClientStream) *pb.WatchResponse {
	response := &pb.WatchResponse{}
	check(stream.RecvMsg(response))
	return response
}

func watch(count int) {
	stream := begin(dial(), "Watch", &pb.WatchRequest{}, true)
	last := change(stream).Generation
	fmt.Println("watching")
	for i := 0; i < count; i++ {
		next := change(stream).Generation
		if next != last+1 {
			fmt.Fprintf(os.Stderr, "received generation %d directly after %d\n", next, last)
			os.Exit(1)
		}
		last = next
	}
}

func resume() {
	connection := dial()
	stream := begin(connection, "Watch", &pb.WatchRequest{}, true)
	change(stream)
	fmt.Println("watching")
	seen := change(stream).Generation
	check(connection.Close())
	back := make(chan os.Signal, 1)
	signal.Notify(back, syscall.SIGUSR1)
	fmt.Println("away")
	<-back
	stream = begin(dial(), "Watch", &pb.WatchRequest{SinceGeneration: &seen}, true)
	for next := seen + 1; next <= seen+2; next++ {
		response := change(stream)
		if response.GetSnapshot() != nil || response.Generation != next {
			fmt.Fprintf(os.Stderr, "received %v instead of generation %d\n", response, next)
			os.Exit(1)
		}
	}
}

func guard() {
	flow := &pb.Flow{Id: 7, Remote: "203.0.113.9", Local: proto.String("192.0.2.2")}
	request := &pb.GuardRequest{Request: &pb.GuardRequest_Add{Add: flow}}
	stream := begin(dial(), "Guard", request, false)
	response := &pb.GuardResponse{}
	check(stream.RecvMsg(response))
	if chain := response.GetPath().GetChain(); len(chain) != 1 || chain[0].Name != "eth0" {
		fmt.Fprintf(os.Stderr, "the first message about the flow is not its path: %v\n", response)
		os.Exit(1)
	}
	fmt.Println("guarded")
	for response.GetInvalidation().GetSeverity() != pb.InvalidationSeverity_INVALIDATION_SEVERITY_DESTROY {
		check(stream.RecvMsg(response))
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
