"""Whole notebooks of libraries, plainly and with every cell under ``%%dynamo``."""
