package alluvium

// Kind is the kind of an error: the same name in every language.
type Kind string

// The kinds of errors.
const (
	Locked           Kind = "locked"
	NotAStore        Kind = "not_a_store"
	AlreadyExists    Kind = "already_exists"
	NotFound         Kind = "not_found"
	NewerVersion     Kind = "newer_version"
	OlderVersion     Kind = "older_version"
	Corrupt          Kind = "corrupt"
	Full             Kind = "full"
	Exhausted        Kind = "exhausted"
	ReadOnly         Kind = "read_only"
	PermissionDenied Kind = "permission_denied"
	IO               Kind = "io"
	Poisoned         Kind = "poisoned"
	Closed           Kind = "closed"
	Dropped          Kind = "dropped"
	InvalidArgument  Kind = "invalid_argument"
	BadValue         Kind = "bad_value"
	Gone             Kind = "gone"
	Conflict         Kind = "conflict"
	Deadlock         Kind = "deadlock"
	TimedOut         Kind = "timed_out"
	Ended            Kind = "ended"
	LimitReached     Kind = "limit_reached"
	InUse            Kind = "in_use"
	Panicked         Kind = "panicked"
)

// Error is an error of the store. Its text says what was wrong, where, and what to do.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

// Is returns whether the other error is of the same kind, so that errors.Is(err,
// &Error{Kind: Conflict}) finds a conflict.
func (e *Error) Is(other error) bool {
	wanted, is := other.(*Error)
	return is && wanted.Kind == e.Kind
}
