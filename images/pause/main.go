// Command pause holds a pod's namespaces open until the pod ends.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	orphan := make(chan os.Signal, 16)
	signal.Notify(orphan, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-orphan:
			// With a shared process namespace this is process 1, and orphans are its to collect.
			for {
				pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				if pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}
