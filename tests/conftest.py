from __future__ import annotations

import os

from hypothesis import settings

# Settings of whoever runs the tests must not reach what the tests start.
for _name in [name for name in os.environ if name.startswith("MUTIRAO_")]:
    del os.environ[_name]

# A slow machine is no failure; CI tries the same examples each time, people try new ones.
settings.register_profile("mutirao", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("mutirao")
