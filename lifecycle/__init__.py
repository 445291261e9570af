"""Records and state machines. Wholly pure: no clock, no store, no I/O, no logging."""
