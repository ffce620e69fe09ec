"""A fuzzer: random audits, audit files, settings and manifests, most of them valid, some of them hostile.

`python -m tests.fuzz --cases 10000 --seed 0` runs cases in worker processes and prints what they found; `--case K` runs one of them here.
Whatever a user may write ends in a result or in one sentence. A case is decided by the seed and its number alone.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
