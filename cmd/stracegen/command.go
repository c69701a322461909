// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/phasecol/phasecol/cmd/stracegen/logdir"
	"github.com/phasecol/phasecol/cmd/stracegen/model"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

const examples = `  # 100 requests on two ranks, one log per process, spans to a collector, the truth to a file
  stracegen --out run/logs --otlp http://127.0.0.1:4318 --truth run/truth.json

  # the same bytes every time, without a network
  stracegen --seed 7 --start 2026-01-01T00:00:00Z --out logs --otlp-file spans.jsonl --truth truth.json

  # ten seconds live, eight ranks, a few errors, cancellations and one-token requests
  stracegen --realtime --duration 10s --ranks 8 --rate 30 --error-rate 0.05 --cancel-rate 0.05 --one-token-rate 0.05 --out run/logs

  # the oldest format on one shared pipe, lines torn as they were
  stracegen --generation 1 --ranks 4 --single-file --interleave --out logs

  # a kubelet's container log between other lines, rotated every 10 MB
  stracegen --format cri --noise 99 --rotate-bytes 10000000 --out /tmp/log

  # write and rotate until killed, one write per line
  stracegen --forever --realtime --time-scale 0.05 --rate 200 --rotate-bytes 1000000 --out logs`

// settings are everything the flags say.
type settings struct {
	model model.Config
	logs  logdir.Options

	out            string
	noLogs         bool
	realtime       bool
	forever        bool
	start          string
	startMono      int64
	skew           string
	prompt, output string
	timeZone       string
	lineWrites     bool

	otlp, otlpFile string
	otlpTimeout    time.Duration
	serviceName    string
	serviceVersion string
	hostName       string
	truth          string
	quiet          bool

	stdout, stderr io.Writer
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	s := &settings{model: model.NewDefaultConfig(), stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:           "stracegen",
		Short:         "simulate a serving process: host runtime logs, request spans, and the truth about both",
		Example:       examples,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.complete(cmd); err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.Flags().SortFlags = false
	s.modelFlags(cmd)
	s.outputFlags(cmd)
	return cmd
}

func (s *settings) modelFlags(cmd *cobra.Command) {
	f, c := cmd.Flags(), &s.model
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of everything random; with --start the output is the same every time")
	f.IntVar(&c.Generation, "generation", c.Generation, "log format, 1 (oldest) to 9 (newest)")
	f.StringVar(&c.Runtime, "runtime", c.Runtime, "tmr, hbg or sim")
	f.StringVar(&c.Level, "level", c.Level, "records of runs: node, network1 … network3, or none")
	f.IntVar(&c.Ranks, "ranks", c.Ranks, "chip processes")
	f.IntVar(&c.DeviceBase, "device-base", c.DeviceBase, "device id of the first rank")
	f.Int32Var(&c.PIDBase, "pid-base", c.PIDBase, "pid of the API process, the others follow; 0 draws one")
	f.IntVar(&c.Requests, "requests", c.Requests, "requests to serve; with --duration alone no limit")
	f.DurationVar(&c.Duration, "duration", c.Duration, "how long requests arrive")
	f.BoolVar(&s.forever, "forever", false, "requests arrive until the process is stopped")
	f.Float64Var(&c.Rate, "rate", c.Rate, "request arrivals per second")
	f.IntVar(&c.Batch, "batch", c.Batch, "most sequences decoded at once")
	f.IntVar(&c.ChunkTokens, "chunk", c.ChunkTokens, "most prompt tokens one step prefills")
	f.StringVar(&s.prompt, "prompt", c.Prompt.String(), "prompt tokens: N, MIN-MAX or lognormal:MEDIAN:SIGMA")
	f.StringVar(&s.output, "output", c.Output.String(), "output tokens, as --prompt")
	f.Float64Var(&c.ErrorRate, "error-rate", c.ErrorRate, "share of requests the engine fails")
	f.Float64Var(&c.CancelRate, "cancel-rate", c.CancelRate, "share of requests whose client leaves early")
	f.Float64Var(&c.RejectRate, "reject-rate", c.RejectRate, "share of requests answered 4xx")
	f.Float64Var(&c.PDRate, "pd", c.PDRate, "share of prefill/decode-split requests, whose engine spans are left out")
	f.Float64Var(&c.OneTokenRate, "one-token-rate", c.OneTokenRate, "share of sequences with one output token")
	f.Float64Var(&c.CachedRate, "cached-rate", c.CachedRate, "share of sequences with part of the prompt cached")
	f.Float64Var(&c.UpstreamRate, "upstream-rate", c.UpstreamRate, "share of requests that come with a traceparent, half of them not sampled")
	f.IntVar(&c.Siblings, "n", c.Siblings, "most sequences of one request")
	f.Float64Var(&c.SiblingRate, "n-rate", 0.2, "share of requests with more than one sequence, when --n is above 1")
	f.Float64Var(&c.RunFailRate, "run-fail-rate", c.RunFailRate, "share of runs whose device reports an error")
	f.Float64Var(&c.TimeScale, "time-scale", c.TimeScale, "multiplies device and engine times; 0.1 is ten times faster")
	f.IntVar(&c.Pipeline, "pipeline", c.Pipeline, "runs in flight on a chip, 1 or 2")
	f.BoolVar(&c.DeviceSpans, "device-spans", c.DeviceSpans, "print what the device stamped")
	f.IntVar(&c.TaskSlots, "task-slots", c.TaskSlots, "task windows among the device spans, 0 to 16")
	f.BoolVar(&c.BindPhases, "bind-phases", c.BindPhases, "print the parts of bind as timing lines (hbg, generation 6 to 8)")
	f.BoolVar(&c.Prewarm, "prewarm", c.Prewarm, "print the record of a worker's warm-up")
	f.BoolVar(&c.Ext, "ext", c.Ext, "print ext.atom.* records that name requests (generation 8 and 9)")
	f.IntVar(&c.ReopenEvery, "reopen-every", c.ReopenEvery, "close and open the worker after so many runs: counters start again")
	f.Float64Var(&c.DropRate, "drop-rate", c.DropRate, "share of records lost and declared lost (generation 9)")
	f.BoolVar(&c.NoAnchors, "no-anchors", c.NoAnchors, "leave out clock anchors")
	f.StringVar(&s.start, "start", "", "wall time of the start, RFC 3339 or Unix nanoseconds (default now, or so that the end is now)")
	f.Int64Var(&s.startMono, "mono-start", 0, "monotonic time of the start, nanoseconds (default this machine's, 1000 s with --start)")
	f.StringVar(&s.skew, "mono-skew", "", "clock error, offset and drift, such as 2ms,50ppm: anchors lie that far behind true time, which runs that much faster")
	f.StringVar(&c.Model, "model", c.Model, "name of the served model")
}

func (s *settings) outputFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.out, "out", "-", "folder for the logs, one host.<pid>.log per process; - is standard output")
	f.BoolVar(&s.noLogs, "no-logs", false, "write no logs")
	f.BoolVar(&s.logs.Single, "single-file", false, "all processes into one host.log")
	f.StringVar(&s.logs.Format, "format", "raw", "raw, cri or docker; the latter two lay files out as a kubelet or Docker does")
	f.StringVar(&s.logs.Pod.Namespace, "pod-namespace", "serving", "namespace in the container log's path")
	f.StringVar(&s.logs.Pod.Name, "pod-name", "atom-0", "pod name in the container log's path")
	f.StringVar(&s.logs.Pod.UID, "pod-uid", "6f1c2f0e-3a52-4f0e-9a6d-0c8f5b1d2e3a", "pod uid in the container log's path")
	f.StringVar(&s.logs.Pod.Container, "container", "engine", "container name in the container log's path")
	f.IntVar(&s.logs.PartialBytes, "partial-bytes", 0, "where the container runtime cuts a line (default 16 KiB)")
	f.Int64Var(&s.logs.RotateBytes, "rotate-bytes", 0, "rename a log to .1, .2, … once it has so many bytes; 0 never")
	f.BoolVar(&s.lineWrites, "line-writes", false, "one write per line (default with --realtime and --forever)")
	f.BoolVar(&s.logs.Bare, "bare", false, "records without prefixes, in host-strace.<pid>.log")
	f.Float64Var(&s.logs.Noise, "noise", 0, "foreign lines per record; 99 makes one line in a hundred a record")
	f.BoolVar(&s.logs.Interleave, "interleave", false, "tear lines of different processes, generations 1 to 3 in one file")
	f.StringVar(&s.timeZone, "time-zone", "UTC", "zone of the wall prefix of generations 1 to 5")
	f.BoolVar(&s.realtime, "realtime", false, "write and send when it happens instead of at once")
	f.StringVar(&s.otlp, "otlp", "", "send request spans to this OTLP/HTTP URL, such as http://127.0.0.1:4318")
	f.DurationVar(&s.otlpTimeout, "otlp-timeout", time.Second, "timeout of one export, retries included")
	f.StringVar(&s.otlpFile, "otlp-file", "", "write request spans as OTLP JSON, one request per line")
	f.StringVar(&s.serviceName, "service-name", "atom", "service.name of the request spans")
	f.StringVar(&s.serviceVersion, "service-version", "stracegen", "service.version of the request spans")
	host, _ := os.Hostname()
	f.StringVar(&s.hostName, "host-name", host, "host.name of the request spans")
	f.StringVar(&s.truth, "truth", "", "write the ground truth as JSON")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "no summary on standard error")
}

// complete turns flags into settings that fit together.
func (s *settings) complete(cmd *cobra.Command) error {
	c := &s.model
	var err error
	if c.Prompt, err = model.ParseDist(s.prompt); err != nil {
		return fmt.Errorf("--prompt: %w", err)
	}
	if c.Output, err = model.ParseDist(s.output); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if c.SkewOffset, c.SkewPPM, err = parseSkew(s.skew); err != nil {
		return err
	}
	switch changed := cmd.Flags().Changed; {
	case s.forever && (changed("requests") || c.Duration > 0):
		return errors.New("--forever: has no end, leave out --requests and --duration")
	case s.forever:
		c.Requests = 0
	case c.Duration > 0 && !changed("requests"):
		c.Requests = 0
	case c.Requests == 0 && c.Duration == 0:
		return errors.New("--requests 0: give --duration, or --forever")
	}
	if s.forever && s.truth != "" {
		return errors.New("--truth: would grow without bound under --forever")
	}
	if s.logs.Noise < 0 || s.logs.Noise > 1e6 || math.IsNaN(s.logs.Noise) {
		return fmt.Errorf("--noise %v: must be between 0 and 1000000", s.logs.Noise)
	}
	if s.logs.RotateBytes < 0 || s.logs.PartialBytes < 0 {
		return errors.New("--rotate-bytes and --partial-bytes: must not be negative")
	}
	if s.logs.Bare && (c.Generation != 9 || s.logs.Single || s.logs.Format != "raw") {
		return errors.New("--bare: only generation 9 writes such files, raw and one per process")
	}
	if s.logs.Interleave && c.Generation > 3 {
		return fmt.Errorf("--interleave: generation %d writes whole lines, use 1 to 3", c.Generation)
	}
	s.logs.Seed = c.Seed
	s.logs.ByLine = s.lineWrites || s.realtime || s.forever
	if err := s.resolveStart(); err != nil {
		return err
	}
	return c.Validate()
}

// resolveStart sets the clock the simulation starts with.
func (s *settings) resolveStart() error {
	c := &s.model
	if s.start != "" {
		wall, err := parseStart(s.start)
		if err != nil {
			return err
		}
		c.StartWall = wall
		if s.startMono > 0 {
			c.StartMono = s.startMono
		}
		return nil
	}
	mono, err := monotonicNow()
	if err != nil {
		return err
	}
	c.StartWall, c.StartMono = time.Now().UnixNano(), mono
	if !s.realtime && !s.forever {
		if err := c.Validate(); err != nil {
			return err
		}
		length, err := model.Length(*c)
		if err != nil {
			return err
		}
		c.StartWall -= length
		c.StartMono = max(1_000_000_000, c.StartMono-length)
	}
	if s.startMono > 0 {
		c.StartMono = s.startMono
	}
	return nil
}

func parseStart(text string) (int64, error) {
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns > 0 {
		return ns, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Unix() < 0 {
		return 0, fmt.Errorf("--start %q: want RFC 3339 such as 2026-01-01T00:00:00Z, or Unix nanoseconds", text)
	}
	return t.UnixNano(), nil
}

func parseSkew(text string) (offset time.Duration, ppm float64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if num, ok := strings.CutSuffix(part, "ppm"); ok {
			ppm, err = strconv.ParseFloat(num, 64)
		} else {
			offset, err = time.ParseDuration(part)
		}
		if err != nil {
			return 0, 0, fmt.Errorf(`--mono-skew %q: want a duration, a drift, or both, such as "2ms", "50ppm" or "2ms,50ppm"`, text)
		}
	}
	return offset, ppm, nil
}

// pod is the container's identity, nil where the logs show none.
func (s *settings) pod() *truth.Pod {
	if s.logs.Format != "cri" {
		return nil
	}
	return &s.logs.Pod
}
