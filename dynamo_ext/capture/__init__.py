"""One run of a function or cell under TorchDynamo, and the record of it."""
