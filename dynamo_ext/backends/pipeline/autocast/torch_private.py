"""What Dynamo marks the inputs of a captured graph with."""

from torch.fx import Node


def give_source(placeholder: Node) -> None:
    """Mark an input that Dynamo has not made: AOTAutograd wants to know where each comes from."""
    from torch._dynamo.source import LocalSource

    placeholder._dynamo_source = LocalSource(placeholder.name)
