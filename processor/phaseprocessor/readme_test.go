// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

// The README's examples are configurations that work.
func TestReadmeExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		retrieved, err := confmap.NewRetrievedFromYAML([]byte(block[1]))
		require.NoError(t, err)
		conf, err := retrieved.AsConf()
		require.NoError(t, err)
		sub, err := conf.Sub("processors::phase")
		require.NoError(t, err)
		cfg := createDefaultConfig().(*Config)
		require.NoError(t, sub.Unmarshal(cfg))
		require.NoError(t, cfg.Validate())
	}
}

// Every setting is in the README's table.
func TestReadmeHasEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, name := range settings("", reflect.TypeFor[Config]()) {
		require.Contains(t, string(readme), "| `"+name+"` |")
	}
}

func settings(prefix string, of reflect.Type) []string {
	var out []string
	for i := range of.NumField() {
		field := of.Field(i)
		name := field.Tag.Get("mapstructure")
		if name == "" {
			continue
		}
		name = prefix + name
		inner := field.Type
		switch {
		case name == "retry_on_failure":
			out = append(out, name)
		case inner.Kind() == reflect.Struct:
			out = append(out, settings(name+".", inner)...)
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			out = append(out, name)
			out = append(out, settings(name+"[].", inner.Elem())...)
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Slice && inner.Elem().Elem().Kind() == reflect.Struct:
			out = append(out, name)
			out = append(out, settings(strings.TrimSuffix(name, "[]")+".<field>[].", inner.Elem().Elem())...)
		default:
			out = append(out, name)
		}
	}
	return out
}
