"""Functions of libraries that run in Python, as ``generate`` of transformers does.

What such a function calls of its library runs in Python, too: most of it holds a few operations
between graph breaks. Modules and functions of the user's that it calls are captured. Of a call
``model.generate(ids)``::

    generate                   Python
      _get_logits_processor    Python: generate calls it
      model.forward            captured: it is a module's
      processor(ids, scores)   captured, where its class is the user's
"""

import types

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.code.source_lines import is_library
from dynamo_ext.capture.torch_private import code_cache

# By identity: some code that Dynamo makes has no hash.
_in_python = WeakIdKeyDictionary()
code_cache.learned.append(_in_python)


def note(code: types.CodeType) -> None:
    """Have what ``code`` calls of its library run in Python, if ``code`` is a library's."""
    if is_library(code.co_filename):
        _in_python[code_cache.users_code(code)] = True


def follows(code: types.CodeType, caller: types.CodeType) -> bool:
    """Whether ``code`` runs in Python because its ``caller`` does."""
    # A module is called through torch's own code.
    known = code_cache.users_code(caller) in _in_python
    if not known or code.co_name == "forward" or not is_library(code.co_filename):
        return False
    _in_python[code] = True
    return True
