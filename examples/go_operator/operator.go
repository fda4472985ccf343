// An asynchronous wait operator in Go: ordered and unordered, without retries. One mail at a time runs on one thread;
// a completion and a timer reach the operator as mail, and a mail lets one entry leave.
package main

import "encoding/json"

type Value = json.RawMessage

type kind int

const (
	record kind = iota
	watermark
	status
)

// An element of the input: a record, a watermark or a watermark status.
type element struct {
	kind  kind
	value Value
	ts    *int64
	idle  bool
}

// An element in the queue.
type entry struct {
	element
	call      int  // 0 for what is no record
	answered  bool // an outcome was given, though its mail may still wait
	done      bool
	doneOrder int
	results   []Value
	timer     *timer
}

type timer struct {
	at    int64
	order int
	mail  func()
}

type failure struct{ code, message string }

type operator struct {
	config   config
	now      int64
	write    func(event map[string]any)
	queue    []*entry
	calls    []*entry
	called   map[int]bool // calls without an outcome
	pending  []element    // what waits for a slot
	blocked  bool         // whether `blocked` was written
	mails    []func()
	timers   []*timer
	order    int
	due      []int64 // snapshots that wait for a slot or for the end
	draining bool
	ended    bool
	failed   bool
}

func newOperator(c config, now int64, write func(map[string]any)) *operator {
	return &operator{config: c, now: now, write: write, called: map[int]bool{}}
}

func (o *operator) next() int {
	o.order++
	return o.order
}

// give takes an element of the input, or of a snapshot.
func (o *operator) give(e element) {
	if len(o.pending) > 0 || len(o.queue) >= o.config.Capacity {
		o.pending = append(o.pending, e)
		return
	}
	o.admit(e)
}

func (o *operator) admit(e element) {
	one := &entry{element: e}
	o.queue = append(o.queue, one)
	if e.kind != record {
		one.done = true
		o.emitOne()
		return
	}
	if o.config.TimeoutMs > 0 {
		one.timer = &timer{at: o.now + o.config.TimeoutMs, order: o.next(), mail: func() { o.timeOut(one) }}
		o.timers = append(o.timers, one.timer)
	}
	o.calls = append(o.calls, one)
	one.call = len(o.calls)
	o.called[one.call] = true
	o.write(map[string]any{"ev": "call", "call": one.call, "value": e.value, "attempt": 1})
	for _, thrown := range o.config.InvokeThrows {
		if same(thrown, e.value) {
			o.fail(failure{"callback-error", "the invocation raises"})
			return
		}
	}
}

// complete is the first outcome of a record, or nothing.
func (o *operator) complete(one *entry, results []Value) {
	if one.answered {
		return
	}
	one.answered = true
	o.post(func() {
		o.cancel(one.timer)
		one.results, one.done, one.doneOrder = results, true, o.next()
		o.emitOne()
	})
}

func (o *operator) completeBadly(one *entry, why failure) {
	if one.answered {
		return
	}
	one.answered = true
	o.post(func() { o.fail(why) })
}

func (o *operator) timeOut(one *entry) {
	if one.answered {
		return
	}
	o.write(map[string]any{"ev": "timeout", "value": one.value})
	switch o.config.onTimeout {
	case "fail":
		o.completeBadly(one, failure{"timeout", "the call has timed out"})
	case "throw":
		o.fail(failure{"callback-error", o.config.thrown})
	case "results":
		o.complete(one, o.config.substitute)
	}
}

func (o *operator) fail(why failure) {
	if !o.failed {
		o.failed = true
		o.mails, o.due = nil, nil
		o.write(map[string]any{"ev": "failed", "error": why.code, "message": why.message})
	}
}

// emitOne lets one entry leave, and posts a mail if another one may.
func (o *operator) emitOne() {
	place := o.ready()
	if place < 0 {
		return
	}
	one := o.queue[place]
	o.queue = append(o.queue[:place:place], o.queue[place+1:]...)
	switch one.kind {
	case record:
		for _, result := range one.results {
			o.write(map[string]any{"ev": "emit", "value": result, "ts": one.ts})
		}
	case watermark:
		o.write(map[string]any{"ev": "watermark", "ts": one.ts})
	case status:
		o.write(map[string]any{"ev": "status", "idle": one.idle})
	}
	if o.ready() >= 0 {
		o.post(o.emitOne)
	}
}

// ready is the place of the entry that may leave next, or -1: the head, or if unordered the record before the first
// watermark whose outcome was processed first.
func (o *operator) ready() int {
	best := -1
	for place, one := range o.queue {
		if o.config.Mode == "ordered" || one.kind != record {
			if place == 0 && one.done {
				return 0
			}
			break
		}
		if one.done && (best < 0 || one.doneOrder < o.queue[best].doneOrder) {
			best = place
		}
	}
	return best
}

func (o *operator) post(mail func()) { o.mails = append(o.mails, mail) }

func (o *operator) cancel(t *timer) {
	for place, other := range o.timers {
		if other == t {
			o.timers = append(o.timers[:place:place], o.timers[place+1:]...)
			return
		}
	}
}

// run runs the mailbox until it is empty; after each mail what waits for a slot is let in.
func (o *operator) run() {
	for !o.failed {
		o.settle()
		if len(o.mails) == 0 || o.failed {
			return
		}
		mail := o.mails[0]
		o.mails = o.mails[1:]
		mail()
	}
}

// settle lets in what has a slot now, ends the drain if nothing is left, and takes the snapshots that waited for that.
func (o *operator) settle() {
	for len(o.pending) > 0 && len(o.queue) < o.config.Capacity && !o.failed {
		e := o.pending[0]
		o.pending = o.pending[1:]
		o.admit(e)
	}
	if o.failed {
		return
	}
	if o.blocked && len(o.pending) == 0 {
		o.blocked = false
		o.write(map[string]any{"ev": "unblocked"})
	}
	if o.draining && len(o.queue) == 0 && len(o.pending) == 0 {
		o.draining, o.ended = false, true
		o.write(map[string]any{"ev": "ended"})
	}
	if len(o.pending) == 0 && !o.draining {
		for _, id := range o.due {
			o.snapshot(id)
		}
		o.due = nil
	}
}

func (o *operator) snapshot(id int64) {
	held := []map[string]any{}
	for _, one := range o.queue {
		switch one.kind {
		case record:
			held = append(held, map[string]any{"value": one.value, "ts": one.ts})
		case watermark:
			held = append(held, map[string]any{"watermark": one.ts})
		case status:
			held = append(held, map[string]any{"idle": one.idle})
		}
	}
	state := map[string]any{"elements": held}
	o.write(map[string]any{"ev": "snapshot", "id": id, "state": state, "elements": held})
}

// advance lets time pass up to `to`; with hold all timers that fall due are only posted.
func (o *operator) advance(to int64, hold bool) {
	for !o.failed {
		first := o.earliest(to)
		if first == nil {
			break
		}
		if !hold {
			o.now = first.at
		}
		o.postDue(first.at)
		if !hold {
			o.run()
		}
	}
	o.now = to
}

func (o *operator) earliest(to int64) *timer {
	var first *timer
	for _, t := range o.timers {
		if t.at <= to && (first == nil || t.at < first.at || t.at == first.at && t.order < first.order) {
			first = t
		}
	}
	return first
}

func (o *operator) postDue(at int64) {
	for t := o.earliest(at); t != nil; t = o.earliest(at) {
		o.cancel(t)
		o.post(t.mail)
	}
}

func (o *operator) running() int {
	count := 0
	for call := range o.called {
		if !o.calls[call-1].answered {
			count++
		}
	}
	return count
}
