"""Speed against the floor: the bare batched model passes that a score needs, in the same run."""
