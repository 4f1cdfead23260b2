"""The machine itself: no library, only system calls. Its rows are the limits for the other rows."""

from __future__ import annotations

import platform

from harness.peer import Peer


class Hardware(Peer):
    def version(self) -> str:
        return f"{platform.system()} {platform.release()}"
