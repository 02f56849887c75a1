"""Engines that print, log and warn while they convert, kept from doing so in a cell."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Nothing is printed or warned of, nor logged by loggers of these names and those below.

    Nor by ``logging.warning()`` and its like, which would also configure the root logger for good.
    """
    below = tuple(f"{name}." for name in names)
    known = [each for each in list(logging.root.manager.loggerDict) if each.startswith(below)]
    loggers = [logging.root, *(logging.getLogger(each) for each in (*names, *known))]
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            yield
    finally:
        logging.root.removeHandler(handler)
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
