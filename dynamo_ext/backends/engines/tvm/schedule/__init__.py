"""Schedules by rule."""
