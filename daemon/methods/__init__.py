"""One function per method. Each translates params in, calls a store function or the process, and translates out."""
