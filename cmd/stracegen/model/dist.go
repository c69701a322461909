// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Dist is a distribution of token counts, at least 1.
type Dist struct {
	kind     distKind
	a, b     int
	sigma    float64
	original string
}

type distKind uint8

const (
	distFixed distKind = iota
	distUniform
	distLognormal
)

var errDist = errors.New(`want N, MIN-MAX or lognormal:MEDIAN:SIGMA, such as "512", "64-2048" or "lognormal:512:0.8"`)

// ParseDist reads "N", "MIN-MAX" (uniform) or "lognormal:MEDIAN:SIGMA".
func ParseDist(s string) (Dist, error) {
	fail := func() (Dist, error) { return Dist{}, fmt.Errorf("token distribution %q: %w", s, errDist) }
	if rest, ok := strings.CutPrefix(s, "lognormal:"); ok {
		median, sigma, _ := strings.Cut(rest, ":")
		m, err := strconv.Atoi(median)
		sg, err2 := strconv.ParseFloat(sigma, 64)
		if err != nil || err2 != nil || m < 1 || sg < 0 || sg > 3 || math.IsNaN(sg) {
			return fail()
		}
		return Dist{kind: distLognormal, a: m, sigma: sg, original: s}, nil
	}
	if lo, hi, ok := strings.Cut(s, "-"); ok {
		a, err := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err != nil || err2 != nil || a < 1 || b < a {
			return fail()
		}
		return Dist{kind: distUniform, a: a, b: b, original: s}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return fail()
	}
	return Dist{kind: distFixed, a: n, original: s}, nil
}

// MustDist is ParseDist for constants; it panics on a bad one.
func MustDist(s string) Dist {
	d, err := ParseDist(s)
	if err != nil {
		panic(err)
	}
	return d
}

// String returns what ParseDist was given.
func (d Dist) String() string { return d.original }

func (d Dist) draw(r *rand.Rand) int {
	switch d.kind {
	case distUniform:
		return d.a + r.IntN(d.b-d.a+1)
	case distLognormal:
		v := float64(d.a) * math.Exp(d.sigma*r.NormFloat64())
		return int(min(max(v, 1), 1<<20))
	default:
		return d.a
	}
}
