// linearize reads the history of clients of a key-value store from standard input, one operation a line as JSON, and says
// whether it is linearizable. Each key is a register with put, get and cas (compare and swap); the first value is none.
//
// The answer is one line of JSON: {"verdict": "ok" | "violation" | "undecided", "key": ..., "operations": ..., "why": [...]}.
// It exits with 0 whatever the verdict, and with 1 when it could not judge.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// What is known of an operation's outcome.
const (
	// The answer has come.
	ok = "ok"
	// It has not been carried out, and never will be.
	failed = "failed"
	// It has been carried out, or will be at any later time, or never.
	unknown = "unknown"
)

// operation is one line of the history. Times are in nanoseconds of one monotonic clock.
type operation struct {
	Client int    `json:"client"`
	Key    string `json:"key"`
	// put, get or cas
	Op string `json:"op"`
	// The value put; the new value of a cas.
	Value *string `json:"value"`
	// The value that a cas expects; null: no key.
	Expected *string `json:"expected"`
	// The value that a get has read; null: no key.
	Found *string `json:"found"`
	// Whether a cas has found what it expected.
	Swapped bool   `json:"swapped"`
	Outcome string `json:"outcome"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
}

// register is the state of one key.
type register struct {
	set   bool
	value string
}

func registerOf(value *string) register {
	if value == nil {
		return register{}
	}
	return register{set: true, value: *value}
}

func (r register) String() string {
	if !r.set {
		return "none"
	}
	return r.value
}

func (o operation) check() error {
	switch {
	case !slices.Contains([]string{"put", "get", "cas"}, o.Op):
		return fmt.Errorf("no operation: %q", o.Op)
	case !slices.Contains([]string{ok, failed, unknown}, o.Outcome):
		return fmt.Errorf("no outcome: %q", o.Outcome)
	case o.Op != "get" && o.Value == nil:
		return fmt.Errorf("%s without a value", o.Op)
	case o.Outcome == ok && o.Return < o.Call:
		return fmt.Errorf("it returns before it is called")
	}
	return nil
}

func (o operation) String() string {
	end := "?"
	if o.Outcome == ok {
		end = fmt.Sprintf("%.3f", float64(o.Return)/1e9)
	}
	what := ""
	switch o.Op {
	case "put":
		what = fmt.Sprintf("put %s", *o.Value)
	case "get":
		what = fmt.Sprintf("get -> %s", registerOf(o.Found))
	case "cas":
		what = fmt.Sprintf("cas %s to %s -> %t", registerOf(o.Expected), *o.Value, o.Swapped)
	}
	if o.Outcome == unknown {
		what += " (outcome unknown)"
	}
	return fmt.Sprintf("client %d, %.3f to %s s: %s", o.Client, float64(o.Call)/1e9, end, what)
}

// step carries an operation out on a register, and says whether its answer could have been that.
func step(state, input, _ any) (bool, any) {
	now, op := state.(register), input.(operation)
	switch op.Op {
	case "put":
		return true, registerOf(op.Value)
	case "get":
		return now == registerOf(op.Found), now
	default:
		swaps := now == registerOf(op.Expected)
		if op.Outcome == ok && swaps != op.Swapped {
			return false, now
		}
		if swaps {
			return true, registerOf(op.Value)
		}
		return true, now
	}
}

var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: step,
}

type answer struct {
	Verdict    string   `json:"verdict"`
	Key        string   `json:"key,omitempty"`
	Operations int      `json:"operations"`
	Keys       int      `json:"keys"`
	Why        []string `json:"why,omitempty"`
}

// read gives the operations that may have had an effect, or have seen one, by key.
func read(in io.Reader) (map[string][]porcupine.Operation, int, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	keys := map[string][]porcupine.Operation{}
	count := 0
	for lines.Scan() {
		count++
		var op operation
		err := json.Unmarshal(lines.Bytes(), &op)
		if err = errors.Join(err, op.check()); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", count, err)
		}
		// A read without an answer has neither.
		if op.Outcome == failed || op.Outcome == unknown && op.Op == "get" {
			continue
		}
		end := op.Return
		if op.Outcome == unknown {
			// At the end of time it has no effect that anyone has seen, as if it had never been carried out.
			end = math.MaxInt64
		}
		keys[op.Key] = append(keys[op.Key], porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end})
	}
	return keys, count, lines.Err()
}

// why gives, of a history that cannot be ordered, the end of the longest part that can be, and what then does not fit.
func why(history []porcupine.Operation, patience time.Duration) []string {
	_, info := porcupine.CheckOperationsVerbose(model, history, patience)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, order := range partial {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var lines []string
	in := map[operation]bool{}
	for _, op := range longest {
		in[op.Input.(operation)] = true
	}
	for _, op := range longest[max(0, len(longest)-8):] {
		lines = append(lines, "fits:    "+op.Input.(operation).String())
	}
	rest := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool {
		return in[op.Input.(operation)] || op.Return == math.MaxInt64
	})
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range rest[:min(len(rest), 4)] {
		lines = append(lines, "not so:  "+op.Input.(operation).String())
	}
	return lines
}

func judge(in io.Reader, patience time.Duration) (answer, error) {
	keys, count, err := read(in)
	if err != nil {
		return answer{}, err
	}
	verdict := answer{Verdict: "ok", Operations: count, Keys: len(keys)}
	names := make([]string, 0, len(keys))
	for key := range keys {
		names = append(names, key)
	}
	slices.Sort(names)
	for _, key := range names {
		switch porcupine.CheckOperationsTimeout(model, keys[key], patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			verdict.Verdict, verdict.Key, verdict.Why = "violation", key, why(keys[key], patience)
			return verdict, nil
		case porcupine.Unknown:
			verdict.Verdict, verdict.Key = "undecided", key
		}
	}
	return verdict, nil
}

func main() {
	patience := flag.Duration("patience", time.Minute, "longest search for an order of one key's operations")
	flag.Parse()
	verdict, err := judge(os.Stdin, *patience)
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetEscapeHTML(false)
		err = out.Encode(verdict)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "linearize:", err)
		os.Exit(1)
	}
}
