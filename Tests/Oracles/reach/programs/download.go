// download URL FILE: downloads with net/http.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	body, err := download(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], body, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func download(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
