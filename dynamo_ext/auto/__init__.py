"""``auto``: for every captured graph the fastest backend with right results, remembered.

After TorchDynamo's Update 3 (dev-discuss.pytorch.org), made trustworthy: raced on one clock,
checked against eager, eager kept wherever nothing is faster.
"""
