// Speaks the operator protocol on standard input and output: reads a command a line, writes its events, then `quiet`.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
)

type config struct {
	Mode         string
	Capacity     int
	TimeoutMs    int64
	InvokeThrows []Value
	onTimeout    string // fail, nothing, results, throw
	substitute   []Value
	thrown       string
}

type refusal struct{ code, message string }

type fields = map[string]json.RawMessage

// What each command needs besides `cmd`; `hold` may always stand there.
var needs = map[string][]string{
	"hello": {"protocol"}, "open": {"config", "now", "restore"}, "element": {"value", "ts"}, "watermark": {"ts"},
	"status": {"idle"}, "marker": {"id"}, "complete": {"call", "results"}, "fail": {"call", "error"},
	"advance": {"to"}, "snapshot": {"id"}, "notify": {"id", "outcome"}, "end_input": {}, "close": {}, "stats": {},
}

type conversation struct {
	out     *bufio.Writer
	greeted bool
	op      *operator
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	c := &conversation{out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			c.take(bytes.TrimRight(line, "\r\n"))
			c.event(map[string]any{"ev": "quiet"})
			if in.Buffered() == 0 {
				c.out.Flush()
			}
		}
		if err == io.EOF {
			c.out.Flush()
			return
		}
	}
}

func (c *conversation) event(event map[string]any) {
	encoder := json.NewEncoder(c.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(event); err != nil {
		panic(err)
	}
}

func (c *conversation) take(line []byte) {
	var told fields
	if json.Unmarshal(line, &told) != nil || told == nil {
		c.refuse(&refusal{"not-json", "the line is no JSON object"})
		return
	}
	var name string
	if json.Unmarshal(told["cmd"], &name) != nil || needs[name] == nil {
		c.refuse(&refusal{"unknown-command", "no such command"})
		return
	}
	if no := c.perform(name, told); no != nil {
		c.refuse(no)
	}
}

func (c *conversation) refuse(no *refusal) {
	c.event(map[string]any{"ev": "error", "error": no.code, "message": no.message})
}

func (c *conversation) inOrder(name string) bool {
	o := c.op
	switch {
	case !c.greeted:
		return name == "hello"
	case o == nil:
		return name == "open"
	case name == "hello" || name == "open":
		return false
	case name == "close" || name == "stats":
		return true
	case o.failed:
		return false
	case name == "complete" || name == "fail" || name == "advance" || name == "snapshot":
		return true
	case name == "notify":
		return !o.blocked && !o.draining
	}
	return !o.blocked && !o.draining && !o.ended
}

func (c *conversation) perform(name string, told fields) *refusal {
	if !c.inOrder(name) {
		return &refusal{"bad-state", "not in order now"}
	}
	r := &reader{fields: told}
	hold := r.only(append([]string{"cmd"}, needs[name]...))
	o := c.op
	var do func()
	switch name {
	case "hello":
		if r.whole("protocol") != 1 && r.bad == "" {
			return &refusal{"unsupported", "this speaks protocol 1"}
		}
		do = func() {
			c.greeted = true
			c.event(map[string]any{"ev": "hello", "protocol": 1, "name": "go-operator", "version": "1",
				"abilities": []string{"ordered", "unordered", "snapshot", "status", "marker"}})
		}
	case "open":
		parsed, no := readConfig(r)
		if no != nil {
			return no
		}
		now, restored := r.whole("now"), r.state("restore")
		do = func() {
			c.op = newOperator(parsed, now, c.event)
			for _, e := range restored {
				if !c.op.failed {
					c.op.give(e)
				}
			}
		}
	case "element":
		e := element{kind: record, value: told["value"], ts: r.wholeOrNull("ts")}
		do = func() { o.give(e) }
	case "watermark":
		ts := r.whole("ts")
		do = func() { o.give(element{kind: watermark, ts: &ts}) }
	case "status":
		idle := r.truth("idle")
		do = func() { o.give(element{kind: status, idle: idle}) }
	case "marker":
		id := told["id"]
		r.whole("id")
		do = func() { c.event(map[string]any{"ev": "marker", "id": id}) }
	case "complete", "fail":
		call, results := r.whole("call"), []Value(nil)
		message := ""
		if name == "complete" {
			results = r.list("results")
		} else {
			message = r.text("error")
		}
		if r.bad == "" && (call < 1 || call > int64(len(o.calls))) {
			return &refusal{"unknown-call", "no such call"}
		}
		do = func() {
			if o.ended {
				return
			}
			if name == "complete" {
				o.complete(o.calls[call-1], results)
			} else {
				o.completeBadly(o.calls[call-1], failure{"user-error", message})
			}
		}
	case "advance":
		to := r.whole("to")
		if r.bad == "" && to < o.now {
			r.bad = "time does not go back"
		}
		do = func() { o.advance(to, hold) }
	case "snapshot":
		id := r.whole("id")
		do = func() {
			if o.blocked || o.draining {
				o.due = append(o.due, id)
			} else {
				o.snapshot(id)
			}
		}
	case "notify":
		r.whole("id")
		if word := r.text("outcome"); word != "complete" && word != "abort" {
			r.bad = "outcome is complete or abort"
		}
		do = func() {}
	case "end_input":
		do = func() {
			o.draining = true
			if len(o.queue) == 0 {
				o.settle()
			}
		}
	case "close":
		do = func() {
			c.event(map[string]any{"ev": "closed", "dropped_mails": len(o.mails), "timers": len(o.timers)})
			c.op = nil
		}
	case "stats":
		do = func() {
			c.event(map[string]any{"ev": "stats", "queue": len(o.queue), "calls_running": o.running(),
				"timers": len(o.timers), "mails": len(o.mails), "now": o.now})
		}
	}
	if r.bad != "" {
		return &refusal{"bad-argument", r.bad}
	}
	do()
	if c.op != nil {
		if !hold {
			c.op.run()
		}
		if len(c.op.pending) > 0 && !c.op.blocked && !c.op.failed {
			c.op.blocked = true
			c.event(map[string]any{"ev": "blocked"})
		}
	}
	return nil
}
