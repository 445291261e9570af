"""`python -m interlock.daemon` is `interlockd`."""

from .main import main

main()
