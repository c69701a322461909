// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector // import "github.com/phasecol/phasecol/connector/stracelogconnector"

import (
	"path"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

const filePathKey = "log.file.path"

// scopeKey names the pid name space that a log record belongs to, from what
// its resource says: the container, one restart of it, else the host and the
// directory of the file, which collectors put on the record.
func scopeKey(resource, record pcommon.Map) string {
	if uid := text(resource, "k8s.pod.uid"); uid != "" {
		return strings.Join([]string{"k8s:" + uid, text(resource, "k8s.container.name"), text(resource, "k8s.container.restart_count")}, "/")
	}
	if id := text(resource, "container.id"); id != "" {
		return "container:" + id
	}
	file := text(resource, filePathKey)
	if file == "" {
		file = text(record, filePathKey)
	}
	if file != "" {
		file = path.Dir(strings.ReplaceAll(file, `\`, "/"))
	}
	return "host:" + text(resource, "host.name") + ":" + file
}

func text(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// resources keeps the attributes of the scopes' resources. The connector's
// lock guards it.
type resources struct {
	limit   int
	byScope map[string]*resource
	uses    uint64
}

type resource struct {
	attrs pcommon.Map
	used  uint64
}

func newResources(limit int) *resources {
	return &resources{limit: limit, byScope: map[string]*resource{}}
}

// note keeps what the resource of the scope key says, but for the file: a
// scope has several.
func (rs *resources) note(key string, attrs pcommon.Map) {
	rs.uses++
	r := rs.byScope[key]
	if r != nil && r.attrs.Len() == attrs.Len() {
		r.used = rs.uses
		return
	}
	if r == nil {
		rs.makeRoom()
		r = &resource{attrs: pcommon.NewMap()}
		rs.byScope[key] = r
	}
	r.used = rs.uses
	attrs.CopyTo(r.attrs)
	r.attrs.RemoveIf(func(k string, _ pcommon.Value) bool { return strings.HasPrefix(k, "log.file.") })
}

// makeRoom forgets the scope that was used longest ago. The assembler, whose
// limit is lower, has forgotten it before.
func (rs *resources) makeRoom() {
	if len(rs.byScope) < rs.limit {
		return
	}
	oldest, used := "", ^uint64(0)
	for key, r := range rs.byScope {
		if r.used < used {
			oldest, used = key, r.used
		}
	}
	delete(rs.byScope, oldest)
}

// write copies what is known of the scope to attrs, which are empty.
func (rs *resources) write(key string, attrs pcommon.Map) {
	if r, ok := rs.byScope[key]; ok {
		r.attrs.CopyTo(attrs)
	}
}
