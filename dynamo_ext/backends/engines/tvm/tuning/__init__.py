"""The search for faster schedules, and its database."""
