"""Pages for people, rendered on the server; they work without scripts."""
