"""One file per thing that is measured: which contestants take part, what a worker times, what the table says."""
