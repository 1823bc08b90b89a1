package alluvium

// The language of the cases: words and ranges.

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

type word struct {
	data []byte
	bare bool
}

// Splits a line into words: plain ones, or quoted ones with escapes and a count: "ab\x00"*3.
func split(line string) (words []word) {
	for {
		line = strings.TrimLeft(line, " ")
		if line == "" || line[0] == '#' {
			return words
		}
		if line[0] != '"' {
			text, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word{[]byte(text), true}), rest
			continue
		}
		var text []byte
		at := 1
		for ; line[at] != '"'; at++ {
			switch {
			case line[at] != '\\':
				text = append(text, line[at])
			case line[at+1] == 'x':
				value, _ := strconv.ParseUint(line[at+2:at+4], 16, 8)
				text = append(text, byte(value))
				at += 3
			default:
				at++
				text = append(text, map[byte]byte{'n': '\n', 't': '\t', '"': '"', '\\': '\\'}[line[at]])
			}
		}
		line = line[at+1:]
		if strings.HasPrefix(line, "*") {
			count, rest, _ := strings.Cut(line[1:], " ")
			times, _ := strconv.Atoi(count)
			text, line = bytes.Repeat(text, times), rest
		}
		words = append(words, word{append([]byte{}, text...), false})
	}
}

func number(w []word, at int) uint64 {
	if at >= len(w) {
		return 0
	}
	if string(w[at].data) == "soon" {
		return uint64(time.Now().UnixMilli()) + 40
	}
	value, _ := strconv.ParseUint(string(w[at].data), 10, 64)
	return value
}

func textAt(w []word, at int) string {
	if at >= len(w) {
		return ""
	}
	return string(w[at].data)
}

func optionalWord(w word) []byte {
	if w.bare && string(w.data) == "none" {
		return nil
	}
	return w.data
}

func rangeOf(w []word) (r Range) {
	for at := 0; at < len(w); at++ {
		verb := string(w[at].data)
		r.KeysOnly = r.KeysOnly || verb == "keys"
		r.Unordered = r.Unordered || verb == "unordered"
		r.AfterStart = r.AfterStart || verb == "after"
		r.ThroughEnd = r.ThroughEnd || verb == "through"
		switch verb {
		case "from", "after":
			at, r.Start = at+1, w[at+1].data
		case "to", "through":
			at, r.End = at+1, w[at+1].data
		case "prefix":
			at, r.Prefix = at+1, w[at+1].data
		}
	}
	return r
}
