package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A reader of the fields of one object; `bad` is the first mistake.
type reader struct {
	fields fields
	bad    string
}

// only requires exactly these fields; returns `hold`.
func (r *reader) only(names []string) bool {
	known := map[string]bool{"hold": true}
	for _, name := range names {
		known[name] = true
		if _, there := r.fields[name]; !there {
			r.wrong(name, "is missing")
		}
	}
	for name := range r.fields {
		if !known[name] {
			r.wrong(name, "is unknown")
		}
	}
	if _, there := r.fields["hold"]; there {
		return r.truth("hold")
	}
	return false
}

func (r *reader) wrong(name, how string) {
	if r.bad == "" {
		r.bad = fmt.Sprintf("`%s` %s", name, how)
	}
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// take decodes a field that is not null.
func take[T any](r *reader, name string) T {
	var taken T
	raw := r.fields[name]
	if raw == nil || isNull(raw) || json.Unmarshal(raw, &taken) != nil {
		r.wrong(name, "has a wrong value")
	}
	return taken
}

func (r *reader) whole(name string) int64  { return take[int64](r, name) }
func (r *reader) truth(name string) bool   { return take[bool](r, name) }
func (r *reader) text(name string) string  { return take[string](r, name) }
func (r *reader) list(name string) []Value { return take[[]Value](r, name) }

func (r *reader) wholeOrNull(name string) *int64 {
	if isNull(r.fields[name]) {
		return nil
	}
	whole := r.whole(name)
	return &whole
}

// state reads the elements of a snapshot; none for null.
func (r *reader) state(name string) []element {
	if isNull(r.fields[name]) {
		return nil
	}
	var saved struct{ Elements []fields }
	if json.Unmarshal(r.fields[name], &saved) != nil || saved.Elements == nil {
		r.wrong(name, "is no state of this program")
		return nil
	}
	restored := []element{}
	for _, one := range saved.Elements {
		inner := &reader{fields: one}
		switch {
		case one["value"] != nil:
			restored = append(restored, element{kind: record, value: one["value"], ts: inner.wholeOrNull("ts")})
		case one["watermark"] != nil:
			ts := inner.whole("watermark")
			restored = append(restored, element{kind: watermark, ts: &ts})
		default:
			restored = append(restored, element{kind: status, idle: inner.truth("idle")})
		}
		if inner.bad != "" {
			r.wrong(name, "is no state of this program")
		}
	}
	return restored
}

func readConfig(r *reader) (config, *refusal) {
	inner := &reader{fields: take[fields](r, "config")}
	parsed := config{onTimeout: "fail"}
	optional := []string{"on_timeout", "retry", "invoke_throws", "profile"}
	wanted := []string{"mode", "capacity", "timeout_ms"}
	for _, name := range optional {
		if _, there := inner.fields[name]; there {
			wanted = append(wanted, name)
		}
	}
	if _, there := inner.fields["key"]; there && string(inner.fields["mode"]) == `"keyed"` {
		wanted = append(wanted, "key")
	}
	if _, there := inner.fields["hold"]; there {
		inner.bad = "`hold` is no part of a config"
	}
	inner.only(wanted)
	parsed.Mode, parsed.Capacity, parsed.TimeoutMs = inner.text("mode"), take[int](inner, "capacity"), inner.whole("timeout_ms")
	parsed.readTimeout(inner)
	if inner.fields["invoke_throws"] != nil {
		parsed.InvokeThrows = inner.list("invoke_throws")
	}
	profile := "strict"
	if inner.fields["profile"] != nil {
		profile = inner.text("profile")
	}
	switch {
	case parsed.Mode == "keyed" || profile == "flink" || inner.fields["retry"] != nil && !isNull(inner.fields["retry"]):
		return parsed, &refusal{"unsupported", "neither mode keyed, nor retries, nor profile flink"}
	case parsed.Mode != "ordered" && parsed.Mode != "unordered":
		inner.wrong("mode", "is unknown")
	case profile != "strict":
		inner.wrong("profile", "is unknown")
	case parsed.Capacity < 1:
		inner.wrong("capacity", "is below 1")
	case parsed.TimeoutMs < 0:
		inner.wrong("timeout_ms", "is below 0")
	}
	if r.bad == "" {
		r.bad = inner.bad
	}
	return parsed, nil
}

func (c *config) readTimeout(r *reader) {
	raw, there := r.fields["on_timeout"]
	if !there {
		return
	}
	if json.Unmarshal(raw, &c.onTimeout) == nil && !isNull(raw) {
		if c.onTimeout != "fail" && c.onTimeout != "nothing" {
			r.wrong("on_timeout", "is unknown")
		}
		return
	}
	inner := &reader{fields: take[fields](r, "on_timeout")}
	switch {
	case len(inner.fields) == 1 && inner.fields["results"] != nil:
		c.onTimeout, c.substitute = "results", inner.list("results")
	case len(inner.fields) == 1 && inner.fields["throw"] != nil:
		c.onTimeout, c.thrown = "throw", inner.text("throw")
	default:
		r.wrong("on_timeout", "is unknown")
	}
	if inner.bad != "" {
		r.wrong("on_timeout", inner.bad)
	}
}

// same compares as JSON: 1, 1.0 and true are three values, and the order of an object's fields does not count.
func same(one, other Value) bool { return bytes.Equal(plain(one), plain(other)) }

func plain(value Value) []byte {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) != nil {
		return value
	}
	encoded, _ := json.Marshal(decoded)
	return encoded
}
