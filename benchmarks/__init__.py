"""Measurements of dynamo_ext and of the engines behind it; each module is a command."""
