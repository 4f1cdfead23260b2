"""Stores in the training loops of other packages. Each module needs its package, and is imported by itself."""
