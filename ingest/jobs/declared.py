"""What a job declares about itself in its comment: `ckpt_s=600 ckpt=periodic elastic=1 tolerates_f=1 sync=tight` among other words.

Anybody may write anything there: each word is read by itself, within bounds, and one that cannot be read declares nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MOST_CHARACTERS = 65_536  # of a comment that are read
_WORD = re.compile(r"(?<![\w=])(ckpt_s|ckpt|elastic|tolerates_f|sync)=([^\s,;]*)")
_LONGEST_INTERVAL_S = 366 * 86_400.0
_MOST_FAILURES = 65_536
_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def words_of(comment: Any) -> dict[str, str]:
    """Find the declarations of a comment, the last of each name; raises TypeError where it is no text."""
    text = comment.get("job") if isinstance(comment, dict) else comment
    if text is not None and not isinstance(text, str):
        raise TypeError(f"a comment that is {type(text).__name__}")
    return dict(_WORD.findall((text or "")[:MOST_CHARACTERS]))


def _interval_s(word: str) -> float:
    seconds = float(word)
    if not 0 < seconds <= _LONGEST_INTERVAL_S:  # NaN is neither
        raise ValueError(f"not between 0 and {_LONGEST_INTERVAL_S:g} s")
    return seconds


def _is_elastic(word: str) -> bool:
    return _TRUTH[word.lower()]


def _failures(word: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", word) or int(word) > _MOST_FAILURES:
        raise ValueError(f"not between 0 and {_MOST_FAILURES}")
    return int(word)


def _one_of(*known: str) -> Callable[[str], str]:
    def read(word: str) -> str:
        if word not in known:
            raise ValueError(f"none of {', '.join(known)}")
        return word

    return read


# The field that each word is declared in, and how it is read; a word that is not one raises ValueError or KeyError.
DECLARATIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "ckpt_s": ("checkpoint_interval_s", _interval_s),
    "ckpt": ("checkpoint_mode", _one_of("periodic", "per_iter", "jit", "replica")),
    "elastic": ("is_elastic", _is_elastic),
    "tolerates_f": ("tolerates_f", _failures),
    "sync": ("sync", _one_of("tight", "loose")),
}
