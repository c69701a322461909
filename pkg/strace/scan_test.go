// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// found is one thing on a line, as text.
func found(s *Scanner, k Kind) string {
	switch k {
	case KindRecord:
		r := &s.Record
		out := fmt.Sprintf("%s %s pid=%d tid=%d inv=%d hid=%0*x depth=%d %d+%d %q", s.Outcome, r.Name.Text, r.PID, r.TID, r.Inv, r.HIDDigits, r.HID, r.Depth, r.TS, r.Dur, r.Attrs)
		if r.Device {
			out += " dev"
		}
		if r.Verbatim {
			out += " verbatim"
		}
		if r.Mono != 0 {
			out += fmt.Sprintf(" mono=%d", r.Mono)
		}
		if r.Wall != nil {
			out += " wall=" + string(r.Wall)
		}
		return out
	case KindAnchor:
		return fmt.Sprintf("anchor %d %d %d", s.Anchor.PID, s.Anchor.Mono, s.Anchor.Wall)
	case KindDrops:
		d := s.Drops
		return fmt.Sprintf("drops %d new=%d total=%d %d/%d/%d/%d mono=%d", d.PID, d.New, d.Total, d.QueueFull, d.ClaimExhausted, d.OutputFailed, d.NotAdmitted, d.Mono)
	case KindReady:
		return fmt.Sprintf("ready %d %d", s.Ready.PID, s.Ready.Dev)
	case KindBad:
		return "bad " + s.Outcome.String()
	default:
		return "none"
	}
}

func scanAll(line string, terminated bool) []string {
	s := NewScanner(NewNames())
	s.Reset([]byte(line), terminated)
	all := []string{}
	for k := s.Next(); k != KindNone; k = s.Next() {
		all = append(all, found(s, k))
	}
	return all
}

const (
	bodyG8 = "[STRACE] v=1 pid=42 tid=43 inv=7 hid=0ab depth=2 name=chip.run.bind.args ts=100 dur=20 "
	wantG8 = `span chip.run.bind.args pid=42 tid=43 inv=7 hid=0ab depth=2 100+20 ""`
)

func TestScannerPrefixes(t *testing.T) {
	g3 := "[STRACE] v=1 pid=1 tid=1 inv=1 hid=abc depth=0 name=simpler_run ts=100 dur=20 "
	want3 := `span simpler_run pid=1 tid=1 inv=1 hid=abc depth=0 100+20 ""`
	for name, c := range map[string]struct {
		line string
		want []string
	}{
		"G1 scope": {
			"[2026-06-29 22:06:28.255626][T0x7f89a4436440][INFO_V9] ~StraceScope: [strace.h:129] [STRACE] v=1 pid=1 tid=1 inv=1 hid=abc depth=2 name=run_prepared.bind.args ts=100 dur=20 ntensor=4",
			[]string{`span run_prepared.bind.args pid=1 tid=1 inv=1 hid=abc depth=2 100+20 "ntensor=4" verbatim wall=2026-06-29 22:06:28.255626`},
		},
		"G1 device": {
			"[2026-06-29 22:06:28.255762][T0x7f][INFO_V9] emit_span_at: [strace.h:182] [STRACE] v=1 pid=1 tid=1 inv=1 hid=abc depth=2 name=run_prepared.runner_run.device_wall ts=0 dur=90 clk=dev",
			[]string{`span run_prepared.runner_run.device_wall pid=1 tid=1 inv=1 hid=abc depth=2 0+90 "clk=dev" dev verbatim wall=2026-06-29 22:06:28.255762`},
		},
		"G2":         {"[2026-07-01 00:00:00.000001][T0x1][INFO_V9] ~StraceScope: [strace.h:129] " + g3, []string{want3 + " verbatim wall=2026-07-01 00:00:00.000001"}},
		"G3":         {"[2026-08-01 00:00:00.000001][T0x1][TIMING] ~StraceScope: [strace.h:131] " + g3, []string{want3 + " verbatim wall=2026-08-01 00:00:00.000001"}},
		"G4":         {"[2026-08-07 00:00:00.000001][T0x1][TIMING] ~StraceScope: [strace.h:134] " + g3, []string{want3 + " verbatim wall=2026-08-07 00:00:00.000001"}},
		"G5 l3":      {"[2026-08-13 00:00:00.000001][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=l3.submit ts=1 dur=2 run_id=1", []string{`span l3.submit pid=1 tid=1 inv=1 hid=0 depth=0 1+2 "run_id=1" wall=2026-08-13 00:00:00.000001`}},
		"G6":         {"[mono_ns=123][T0x7f7f1fe1f440][TIMING] emit_host_span: " + g3, []string{want3 + " mono=123"}},
		"G8":         {"[mono_ns=9223372036854775807][T0x1][TIMING] emit_host_span: " + bodyG8, []string{wantG8 + " mono=9223372036854775807"}},
		"G9 bare":    {bodyG8, []string{wantG8}},
		"no func":    {"[2026-08-11][TIMING] " + bodyG8, []string{wantG8}},
		"date only":  {"[2026-01-01][T0x1][INFO_V9] run_prepared: " + bodyG8, []string{wantG8}},
		"container":  {"2026-11-29T22:06:28.255626000Z stdout F [mono_ns=5][T0x1][TIMING] f: " + bodyG8, []string{wantG8 + " mono=5"}},
		"foreign":    {"loading 57%|##| [mono_ns=5][T0x1][TIMING] f: " + bodyG8 + "[T0x7]other", []string{wantG8 + " mono=5"}},
		"stacked":    {"[mono_ns=5][T0x1][TIMING] f: [mono_ns=6][T0x1][TIMING] f: " + bodyG8 + bodyG8, []string{wantG8, wantG8}},
		"mono cut":   {"[mono_ns=5" + bodyG8, []string{wantG8}},
		"mono huge":  {"[mono_ns=9223372036854775808][T0x1] " + bodyG8, []string{wantG8}},
		"carriage":   {bodyG8 + "\r", []string{wantG8}},
		"nul before": {"\x00\x00\x00[mono_ns=5][T0x1]" + bodyG8, []string{wantG8 + " mono=5"}},
		"nul inside": {strings.Replace(bodyG8, "tid=43", "tid=4\x003", 1), []string{"bad malformed"}},
		"blank":      {"", []string{}},
		"brackets":   {"[[[[[[m[2[s[S[C[H[c[", []string{}},
		"two": {
			"[2026-08-04 10:00:00.000001][T0x1][TIMING] emit_span: [strace.h:132] " + strings.TrimSpace(g3) + " rank=0[2026-08-04 10:00:00.000002][T0x2][TIMING] emit_span: [strace.h:132] " + g3,
			[]string{
				strings.Replace(want3, `""`, `"rank=0"`, 1) + " verbatim wall=2026-08-04 10:00:00.000001",
				want3 + " verbatim wall=2026-08-04 10:00:00.000002",
			},
		},
		"two bodies, stacked prefixes": {
			"[2026-06-28 22:06:28.262984][T0x7f][INFO_V9] emit_span_at: [2026-06-28 22:06:28.262985][T0x7f][INFO_V9] ~StraceScope: [strace.h:182] " + g3 + "clk=dev[strace.h:129] " + g3,
			[]string{strings.Replace(want3, `""`, `"clk=dev"`, 1) + " dev verbatim", want3 + " verbatim"},
		},
		"verbatim bracket": {
			"[strace.h:129] " + g3 + "note=a[0]=b[T0x7f]",
			[]string{strings.Replace(want3, `""`, `"note=a[0]=b"`, 1) + " verbatim"},
		},
		"encoded bracket is foreign": {bodyG8 + "k=v[0]", []string{strings.Replace(wantG8, `""`, `"k=v"`, 1)}},
		"torn then whole":            {"[STRACE] v=1 pid=1 tid=1 inv=1 hid=abc depth=0 name=chip.run" + bodyG8, []string{"bad torn", wantG8}},
		"version 2":                  {strings.Replace(bodyG8, "v=1", "v=2", 1) + bodyG8, []string{"bad unknown_version", wantG8}},
		"version 12":                 {strings.Replace(bodyG8, "v=1", "v=12", 1), []string{"bad unknown_version"}},
		"no version":                 {"plain error mentioning [STRACE] but not a record", []string{}},
		"version word":               {"[STRACE] v=one pid=1", []string{"bad malformed"}},
		"shortened":                  {"[STRACE] name=simpler_run.runner_run.device_wall dur=1000 clk=dev", []string{}},
		"empty name":                 {strings.Replace(bodyG8, "chip.run.bind.args", "", 1), []string{strings.Replace(wantG8, "chip.run.bind.args", "", 1)}},
		"point":                      {strings.Replace(bodyG8, "dur=20", "dur=0", 1), []string{strings.Replace(strings.Replace(wantG8, "+20", "+0", 1), "span", "point", 1)}},
		"host boundaries": {
			"[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=2 name=chip.run.runner_run.device_boundaries ts=5 dur=0 clk=dev dev_id=3",
			[]string{`point chip.run.runner_run.device_boundaries pid=1 tid=1 inv=1 hid=0 depth=2 5+0 "clk=dev dev_id=3"`},
		},
		"device by name": {
			"[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=2 name=chip.run.runner_run.device_wall ts=5 dur=1 clk=devfoo",
			[]string{`span chip.run.runner_run.device_wall pid=1 tid=1 inv=1 hid=0 depth=2 5+1 "clk=devfoo" dev`},
		},
		"not device": {bodyG8 + "xclk=dev clk=device", []string{strings.Replace(wantG8, `""`, `"xclk=dev clk=device"`, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, scanAll(c.line, true))
		})
	}
}

func TestScannerNumbers(t *testing.T) {
	body := func(from, to string) string { return strings.Replace(bodyG8, from, to, 1) }
	for line, want := range map[string]string{
		body("inv=7", "inv=18446744073709551615"):                             strings.Replace(wantG8, "inv=7", "inv=18446744073709551615", 1),
		body("inv=7", "inv=18446744073709551616"):                             "bad malformed",
		body("hid=0ab", "hid=ffffffffffffffff"):                               strings.Replace(wantG8, "hid=0ab", "hid=ffffffffffffffff", 1),
		body("hid=0ab", "hid=0ffffffffffffffff"):                              "bad malformed",
		body("hid=0ab", "hid=xyz"):                                            "bad malformed",
		body("pid=42", "pid=2147483648"):                                      "bad malformed",
		body("pid=42", "pid=-1"):                                              "bad malformed",
		body("tid=43", "tid=9223372036854775808"):                             "bad malformed",
		body("depth=2", "depth=-1"):                                           "bad malformed",
		body("depth=2", "depth=2147483648"):                                   "bad malformed",
		body("ts=100", "ts=-5"):                                               "bad malformed",
		body("dur=20", "dur=-7"):                                              "bad malformed",
		body("ts=100", "ts=1152921504606846977"):                              "bad malformed", // over 2^60
		body("ts=100", "ts=1152921504606846957"):                              "bad malformed", // their sum
		body("ts=100", "ts=1152921504606846956"):                              strings.Replace(wantG8, "100+", "1152921504606846956+", 1),
		body("dur=20", "dur=9223372036854775807"):                             "bad malformed",
		body("dur=20 ", "dur=20x "):                                           "bad malformed",
		body("pid=42 ", "pid=42  "):                                           "bad malformed",
		body(" tid=", " Tid="):                                                "bad malformed",
		body("dur=20 ", "dur= "):                                              "bad malformed",
		"[STRACE] v=99999999999999999999 pid=1":                               "bad malformed",
		"[CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=9 x":                      "anchor 7 5 9",
		"[CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=9":                        "anchor 7 5 9",
		"[CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=":                         "bad torn",
		"[CLOCK_ANCHOR] v=3 pid=7 mono_ns=5 wall_ns=9":                        "bad unknown_version",
		"[CLOCK_ANCHOR] v=1 pid=7 mono_ns=-5 wall_ns=9":                       "bad malformed",
		"[CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=" + "4611686018427387905": "bad malformed",
		"[mono_ns=8][T0xabc][ERROR] host_log_drops: [HOSTLOG_DROPS] v=1 pid=42 new=3 total=5 queue_full=1 claim_exhausted=2 output_failed=3 not_admitted=4": "drops 42 new=3 total=5 1/2/3/4 mono=8",
		"[HOSTLOG_DROPS] v=1 pid=42 new=3 total=5 queue_full=1":                                                  "bad torn",
		"[HOSTLOG_DROPS] v=1 pid=42 new=a":                                                                       "bad malformed",
		"[HOSTLOG_DROPS] v=2 pid=42 new=3 total=5 queue_full=1 claim_exhausted=2 output_failed=3 not_admitted=4": "bad unknown_version",
		"[chip_process pid=16155 dev=1] ready":                                                                   "ready 16155 1",
		"x[chip_process pid=16155 dev=1] ready":                                                                  "ready 16155 1",
	} {
		require.Equal(t, []string{want}, scanAll(line, true), line)
	}
	for _, line := range []string{"[chip_process pid=1 dev=] ready", "[chip_process pid=1 dev=2] gone", "[chip_process pid=99999999999 dev=2] ready"} {
		require.Empty(t, scanAll(line, true), line)
	}
}

// TestScannerCutAnywhere cuts a line at every byte: what is left is no record,
// torn, or, once dur is complete, the record with fewer attributes; never a
// record with another number.
func TestScannerCutAnywhere(t *testing.T) {
	line := "[mono_ns=123][T0x7f][TIMING] emit_host_span: " + bodyG8 + "run_id=12 dispatch_id=3"
	attrs := strings.Index(line, "run_id")
	tag := strings.Index(line, "v=") + len("v=")
	for cut := range len(line) {
		got := scanAll(line[:cut], false)
		switch {
		case cut < tag:
			require.Empty(t, got, cut)
		case cut < attrs:
			require.Equal(t, []string{"bad torn"}, got, "cut at %d", cut)
		default:
			require.Len(t, got, 1)
			require.Equal(t, strings.Replace(wantG8, `""`, strconv.Quote(strings.TrimRight(line[attrs:cut], " ")), 1)+" mono=123", got[0])
		}
		// Another record right behind the cut is always found.
		got = scanAll(line[:cut]+"[mono_ns=9][T0x1] "+bodyG8, true)
		require.NotEmpty(t, got)
		require.True(t, strings.HasPrefix(got[len(got)-1], wantG8), "cut at %d: %q", cut, got)
		if cut >= tag && cut < attrs-1 {
			require.Equal(t, "bad torn", got[0], "cut at %d", cut)
		}
	}
	// A line feed vouches for the digits of dur.
	bare := strings.TrimSpace(bodyG8)
	require.Equal(t, []string{"bad torn"}, scanAll(bare, false))
	require.Equal(t, []string{wantG8}, scanAll(bare, true))
}

// TestScannerLongLine finds a record behind and before five million bytes.
func TestScannerLongLine(t *testing.T) {
	junk := strings.Repeat("[zzzz", 1_000_000)
	require.Equal(t, []string{wantG8, wantG8}, scanAll(junk+bodyG8+junk+bodyG8, true))
	require.Equal(t, []string{"bad malformed"}, scanAll("[STRACE] v=1 pid="+strings.Repeat("9", 5_000_000), true))
}

func TestScannerAllocatesNothing(t *testing.T) {
	s := NewScanner(NewNames())
	line := []byte("[mono_ns=123][T0x7f][TIMING] emit_host_span: " + bodyG8 + "run_id=12 dispatch_id=3")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Reset(line, true)
		drain(s)
	}))
}

// drain reads the rest of the line.
func drain(s *Scanner) {
	for k := s.Next(); k != KindNone; k = s.Next() {
		_ = k
	}
}

func TestOutcomeNames(t *testing.T) {
	names := []string{}
	for o := range NumOutcomes + 1 {
		names = append(names, o.String())
	}
	require.Equal(t, []string{"span", "point", "torn", "unknown_version", "malformed", "duplicate", "unknown"}, names)
}
