// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// Preset names.
const (
	PresetATOM   = "atom"
	PresetVLLM   = "vllm"
	PresetSGLang = "sglang"
)

// PresetNames lists the presets, the default first.
func PresetNames() []string { return []string{PresetATOM, PresetVLLM, PresetSGLang} }

// seconds is the unit that all three presets use under these keys; another
// engine writes nanoseconds under the very same ones, hence the column.
const seconds Unit = 1e9

func text(names ...string) []Key {
	out := make([]Key, len(names))
	for i, name := range names {
		out[i].Name = name
	}
	return out
}

func inSeconds(names ...string) []Key {
	out := text(names...)
	for i := range out {
		out[i].Unit = seconds
	}
	return out
}

// commonKeys is the vocabulary that the three engines share.
func commonKeys() [numFields][]Key {
	return [numFields][]Key{
		FieldRequestID:    text("gen_ai.request.id"),
		FieldOutputTokens: text("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"),
		FieldFinishReason: text("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"),
		FieldErrorType:    text("error.type"),
		FieldStatusCode:   text("http.response.status_code"),
		FieldQueue:        inSeconds("gen_ai.latency.time_in_queue"),
		FieldTTFT:         inSeconds("gen_ai.latency.time_to_first_token"),
		FieldPrefill:      inSeconds("gen_ai.latency.time_in_model_prefill"),
		FieldDecode:       inSeconds("gen_ai.latency.time_in_model_decode"),
		FieldE2E:          inSeconds("gen_ai.latency.e2e"),
	}
}

// presets makes fresh tables: overrides change them in place.
func presets() map[string]*Table {
	atom := &Table{
		Name: PresetATOM, HTTP: true, MarksPhase: true, keys: commonKeys(),
		spans: map[Role][]string{
			RoleRequest: {"atom.request"},
			RoleEngine:  {"engine.request"},
			RoleQueue:   {"prefill_waiting"},
			RolePrefill: {"prefill_forward"},
			RoleDecode:  {"decode_forward"},
		},
	}
	atom.keys[FieldSequenceID] = text("atom.sequence.id")
	atom.keys[FieldUnsupported] = text("atom.trace.unsupported")

	// One span for each finished request; the phases are attributes.
	vllm := &Table{
		Name: PresetVLLM, keys: commonKeys(),
		spans: map[Role][]string{RoleEngine: {"llm_request"}},
	}

	// A root named by the request, below it one span a thread, below that the
	// slices.
	sglang := &Table{
		Name: PresetSGLang, Loose: true, keys: commonKeys(),
		spans: map[Role][]string{
			RoleEngine:  {"Req *", "* Req *"},
			RoleThread:  {"Scheduler *"},
			RoleQueue:   {"prefill_waiting"},
			RolePrefill: {"prefill_forward"},
			RoleDecode:  {"decode_forward"},
		},
	}
	return map[string]*Table{PresetATOM: atom, PresetVLLM: vllm, PresetSGLang: sglang}
}
