package conndial

import (
	"encoding/binary"
	"errors"
)

var errMalformed = errors.New("connd sent a malformed message")

// appendNumber appends a field with a number to a protobuf message, unless it is 0.
func appendNumber(b []byte, field int, value uint64) []byte {
	if value == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), value)
}

// appendBytes appends a field with a text or a message, unless it is empty.
func appendBytes[Bytes string | []byte](b []byte, field int, value Bytes) []byte {
	if len(value) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(field)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// A field of a protobuf message. It has a number or octets, by its type.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

// fields calls a function with each field of a message.
func fields(b []byte, f func(field)) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 > 1<<29-1 {
			return errMalformed
		}
		b = b[n:]
		next := field{number: int(key >> 3)}
		size := uint64(0)
		switch key & 7 {
		case 0:
			if next.value, n = binary.Uvarint(b); n <= 0 {
				return errMalformed
			}
			size = uint64(n)
		case 1:
			size = 8
		case 2:
			if size, n = binary.Uvarint(b); n <= 0 {
				return errMalformed
			}
			b = b[n:]
		case 5:
			size = 4
		default:
			return errMalformed
		}
		if size > uint64(len(b)) {
			return errMalformed
		}
		if key&7 == 2 {
			next.bytes = b[:size:size]
		}
		b = b[size:]
		f(next)
	}
	return nil
}
