"""What every benchmark shares: environments, worker processes, interleaving, the page cache, tables and records."""
