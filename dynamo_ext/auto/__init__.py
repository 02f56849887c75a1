"""``auto``: for every captured graph the fastest backend with right results, remembered."""
