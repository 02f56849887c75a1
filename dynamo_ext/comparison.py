"""The former name of ``dynamo_ext.records.comparison``, kept for one release."""

from dynamo_ext.records.comparison import Comparison

__all__ = ["Comparison"]
