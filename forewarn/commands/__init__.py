"""The commands, grouped by what they work on; each imports what it needs when it runs, so that the node agent stays light."""
