"""Opening models of texts, pictures and videos where torchvision is missing: without the part for videos."""

from __future__ import annotations

from typing import Any

from transformers import ProcessorMixin
from transformers.utils.import_utils import is_torchvision_available

_VIDEO = "video_processor"
_READY = "normwise_leaves_videos_out"


def leave_videos_out() -> bool:
    """Let processors of texts, pictures and videos (Qwen-VL) be opened where torchvision is missing; they then read no videos.

    transformers 5.23 reads pictures with PIL alone, but its video processors need torchvision, and a processor is refused
    as a whole when one of its parts is missing. The change holds for the process, does nothing where torchvision is, and
    nothing the second time. What such a processor saves can be opened where torchvision is: the settings for videos that
    its folder had are written back, or else those for pictures, which the library itself falls back on.

    Returns:
        Whether videos are left out.
    """
    # To be deleted when the library's video processors work without torchvision, or are optional parts.
    if is_torchvision_available():
        return False
    if hasattr(ProcessorMixin, _READY):
        return True
    mixin: Any = ProcessorMixin
    attributes, from_parts = mixin.get_attributes.__func__, mixin.from_args_and_dict.__func__

    def get_attributes(cls: Any) -> list[str]:
        return [name for name in attributes(cls) if name != _VIDEO]

    def from_args_and_dict(cls: Any, args: Any, processor_dict: dict[str, Any], **kwargs: Any) -> Any:
        if _VIDEO not in attributes(cls):
            return from_parts(cls, args, processor_dict, **kwargs)
        settings = processor_dict.get(_VIDEO)
        rest = {key: value for key, value in processor_dict.items() if key != _VIDEO}
        result = from_parts(cls, args, rest, **kwargs)
        processor = result[0] if isinstance(result, tuple) else result
        pictures = getattr(processor, "image_processor", None)
        if settings is None and pictures is not None:
            settings = {key: value for key, value in pictures.to_dict().items() if key != "image_processor_type"}
        # Plain settings where the part would be: the library writes them into the folder as they are.
        processor.video_processor = settings
        return result

    mixin.get_attributes = classmethod(get_attributes)
    mixin.from_args_and_dict = classmethod(from_args_and_dict)
    setattr(ProcessorMixin, _READY, True)
    return True
