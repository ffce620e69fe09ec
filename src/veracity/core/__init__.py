"""Types and protocols that everything else is written in."""
