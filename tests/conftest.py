from __future__ import annotations

import os

# Settings of whoever runs the tests must not reach what the tests start.
for _name in [name for name in os.environ if name.startswith("MUTIRAO_")]:
    del os.environ[_name]
