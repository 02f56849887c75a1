"""What every test shares: a torch that starts clean, and no network."""

from __future__ import annotations

import os

# Before anything imports transformers or jupyter: neither may look for updates or models.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
