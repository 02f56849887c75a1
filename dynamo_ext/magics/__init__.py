"""The ``%%dynamo`` and ``%dynamo`` magics: parse, call, hand to the widgets."""
