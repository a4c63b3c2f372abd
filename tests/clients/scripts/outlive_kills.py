"""Plays sessions with `openreward` or `ors-sdk` while their server is killed; prints what each call returned.

Usage: `python outlive_kills.py URL FOLDER SESSIONS CALLS`, with the interpreter of the client. In the middle
of each session a call hangs until the server is killed; its mark is a file in FOLDER.
"""

import asyncio
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

if find_spec("openreward") is not None:
    from openreward import AsyncOpenReward

    ENVIRONMENTS = AsyncOpenReward(api_key="").environments
else:
    from ors.client import AsyncORS

    ENVIRONMENTS = AsyncORS(base_url=sys.argv[1]).environments


async def play(environment: object, folder: Path, number: int, calls: int) -> dict[str, object]:
    texts = []
    try:
        async with environment.session(split="train", index=0) as session:  # type: ignore[attr-defined]
            await session.get_prompt()
            for call in range(calls):
                name, given = "note", {"text": f"n{call}"}
                if call == calls // 2:
                    name, given = "hang_once", {**given, "path": str(folder / f"mark-{number}")}
                output = await session.call_tool(name, given)
                texts.append(output.blocks[0].text)
    except Exception as error:  # noqa: BLE001 (the kind of error is what the test asks about)
        return {"texts": texts, "error": repr(error)}
    return {"texts": texts, "error": None}


async def main() -> None:
    folder, sessions, calls = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    environment = ENVIRONMENTS.get("journal")
    played = await asyncio.gather(*(play(environment, folder, n, calls) for n in range(sessions)))
    sys.stdout.write(json.dumps(played))


asyncio.run(main())
