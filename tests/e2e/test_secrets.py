"""What looks like a secret is in no log, at any level, whatever becomes of the request that carried it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.harness import spawned

from .support import Wire, note, on, request

PLANTED: Final = "f00d" * 16
WORD: Final = "hunter2-swordfish"
SECRETS: Final = {"bearer": PLANTED, "token": WORD, "password": WORD, "api_key": WORD, "capability_id": WORD}


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
async def test_no_log_holds_a_planted_secret(tmp_path: Path, level: str) -> None:
    async with spawned(tmp_path, "--log-level", level, stdio=True) as daemon:
        assert daemon.process.stdin is not None
        assert daemon.process.stdout is not None
        async with on(daemon) as client:
            await client.call("ledger/role/upsert", name="w")
            await client.call("ledger/send", **{**note(1), "body": {"text": f"Authorization: Bearer {PLANTED} {WORD}"}})
            for name, secret in SECRETS.items():
                assert secret not in (await client.refused("ledger/send", **{**note(2), name: secret})).message
                await client.refused("daemon/ping", **{name: secret})
                await client.refused("ledger/send", **{**note(3), "body": {name: secret}})
        wire = Wire(daemon.process.stdout, daemon.process.stdin, "line")
        for payload in (
            b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping","params":{"token":"%b"' % WORD.encode(),
            request(1, "daemon/ping", {"bearer": [PLANTED]}),
            request(1, f"no/such token={WORD}"),
            request({"token": WORD}, "daemon/ping"),
        ):
            await wire.answers(payload)
        wire.writer.close()
        assert await daemon.ended() == 0
    log = "".join(daemon.log)
    assert PLANTED not in log
    assert WORD not in log
    if level in ("debug", "info"):
        assert '"ready"' in log
