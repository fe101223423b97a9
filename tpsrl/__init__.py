"""The command line; importing it makes the environments known to Gymnasium (docs/hab.md lists their ids).

Since its version 1.0 Gymnasium no longer finds environments by an entry point: `import tpsrl` comes before
`gymnasium.make("tpsrl/Pick-v0")`, or in one, `gymnasium.make("tpsrl:tpsrl/Pick-v0")`.
"""

import hab
import skills

__all__ = ["hab", "skills"]
__version__ = "0.2.0"
