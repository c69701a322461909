// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package hosts runs agents, gateways and a trace store on hosts of their own:
// network namespaces with their own addresses, behind one switch. It needs root
// and iproute2.
package hosts

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// network is a switch and the hosts behind it.
type network struct {
	t      *testing.T
	prefix string
	hosts  int
}

// host is one namespace.
type host struct {
	net     *network
	name    string
	Address string
	port    string
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	require.Zero(t, os.Getuid(), "network namespaces need root")
	n := &network{t: t, prefix: fmt.Sprintf("phc%d", os.Getpid()%10_000)}
	n.namespace("switch")
	n.ip("-n", n.prefix+"-switch", "link", "add", "bridge", "type", "bridge")
	n.ip("-n", n.prefix+"-switch", "link", "set", "bridge", "up")
	return n
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	out, err := exec.CommandContext(n.t.Context(), "ip", args...).CombinedOutput()
	require.NoErrorf(n.t, err, "ip %s: %s", strings.Join(args, " "), out)
}

func (n *network) namespace(name string) {
	n.t.Helper()
	full := n.prefix + "-" + name
	n.ip("netns", "add", full)
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", full).Run() }) //nolint:noctx // the test's own
}

// host adds a host to the switch.
func (n *network) host(name string) *host {
	n.t.Helper()
	n.hosts++
	h := &host{net: n, name: n.prefix + "-" + name, Address: fmt.Sprintf("10.77.0.%d", 10+n.hosts), port: fmt.Sprintf("port%d", n.hosts)}
	n.namespace(name)
	n.ip("link", "add", "eth0", "netns", h.name, "type", "veth", "peer", "name", h.port, "netns", n.prefix+"-switch")
	n.ip("-n", h.name, "address", "add", h.Address+"/24", "dev", "eth0")
	n.ip("-n", h.name, "link", "set", "eth0", "up")
	n.ip("-n", h.name, "link", "set", "lo", "up")
	n.ip("-n", n.prefix+"-switch", "link", "set", h.port, "master", "bridge")
	h.connect()
	return h
}

// partition pulls the host's cable, connect puts it back.
func (h *host) partition() { h.net.ip("-n", h.net.prefix+"-switch", "link", "set", h.port, "down") }
func (h *host) connect()   { h.net.ip("-n", h.net.prefix+"-switch", "link", "set", h.port, "up") }

// resolve makes name lead to addresses on this host, as DNS would; what runs
// already sees a change.
func (h *host) resolve(name string, addresses ...string) {
	h.net.t.Helper()
	dir := "/etc/netns/" + h.name
	require.NoError(h.net.t, os.MkdirAll(dir, 0o755))
	h.net.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var text strings.Builder
	text.WriteString("127.0.0.1 localhost\n")
	for _, address := range addresses {
		fmt.Fprintln(&text, address, name)
	}
	// In place: `ip netns exec` has mounted the file over /etc/hosts.
	file, err := os.OpenFile(filepath.Join(dir, "hosts"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	require.NoError(h.net.t, err)
	_, err = file.WriteString(text.String())
	require.NoError(h.net.t, err)
	require.NoError(h.net.t, file.Close())
}

// listen opens a listener on the host for this process.
func (h *host) listen(port string) net.Listener {
	h.net.t.Helper()
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		// The thread stays in the other namespace and ends with the goroutine.
		runtime.LockOSThread()
		file, err := os.Open("/var/run/netns/" + h.name)
		if err == nil {
			defer file.Close()
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- result{err: err}
			return
		}
		listener, err := (&net.ListenConfig{}).Listen(h.net.t.Context(), "tcp", net.JoinHostPort(h.Address, port))
		done <- result{listener, err}
	}()
	r := <-done
	require.NoError(h.net.t, r.err)
	return r.listener
}
