from __future__ import annotations

import os
import signal

from hypothesis import settings

# Settings of whoever runs the tests must not reach what the tests start.
for _name in [name for name in os.environ if name.startswith("MUTIRAO_")]:
    del os.environ[_name]

# A slow machine is no failure; CI tries the same examples each time, people try new ones.
settings.register_profile("mutirao", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("mutirao")

# A shell that runs the tests in the background has them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
