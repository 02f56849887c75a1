"""Listens under ``run``: what was compiled is used, what does not fit is counted."""

import weakref
from dataclasses import dataclass
from typing import Any

from dynamo_ext.capture.code.block import is_plain
from dynamo_ext.capture.code.source_lines import original_function
from dynamo_ext.capture.listen import compiling, run_log
from dynamo_ext.capture.torch_private import code_cache, frame_answers, frame_eval, traced_frames


@dataclass(eq=False)
class ReuseListener:
    """The frame callback of ``run``, called for frames that no compiled version fits."""

    compiler: Any

    def __post_init__(self) -> None:
        frame_eval.backend_identity(self, self.compiler)

    def __call__(self, frame: Any, cache: Any, state: Any) -> Any:  # noqa: ARG002
        """Let the frame run eagerly, and say so."""
        run, code = run_log.active_run(), frame.f_code
        if run is None or is_plain(code) or traced_frames.is_library_code(code, frame):
            return frame_answers.skip_permanently()
        versions, reasons = code_cache.recompile_reasons(frame, self.compiler)
        in_cell = code.co_filename == run.cell_file and code.co_name == "<module>"
        if versions or in_cell:
            reason = (
                "no compiled version fits"
                if versions
                else "it has not been compiled: run it once with %%dynamo optimize"
            )
            name = original_function(code.co_name)
            key = (name, code.co_filename, code.co_firstlineno)
            run.eager_frames[key] = run_log.FrameEntry(
                "", *key, weakref.ref(code), outcome="eager", reason=reason
            )
            if reasons:
                compiling.note_miss(run, frame, reasons[0], None)
        return frame_answers.EAGERLY_ONCE if in_cell else frame_answers.NOTHING_NEW_ONCE
