"""Seeded random programs through every engine that runs on a CPU, held against eager."""
