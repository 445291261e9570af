"""The version of the running program. Not read from installed metadata, which may be another build's (field C07)."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
