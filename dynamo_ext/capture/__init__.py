"""A cell, function or module under TorchDynamo, and the record of what happened."""

from dynamo_ext.torch_private import version

# The modules of this package import private names: a torch that lacks one is refused in a sentence.
version.require()
