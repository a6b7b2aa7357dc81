"""The SQL of the service: the very files that the Rust service runs.

Their placeholders are numbered (`$1`); here they get names, in the order given, so that a call
says what it binds.
"""

import re
from pathlib import Path

from sqlalchemy import TextClause, text

_FOLDER = Path(__file__).parents[2] / "sql"


def _statement(name: str, *parameters: str) -> TextClause:
    sql = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    used = {int(number) for number in re.findall(r"\$(\d+)", sql)}
    if used != set(range(1, len(parameters) + 1)):
        reason = f"{name}.sql has the placeholders {sorted(used)}, not {len(parameters)}"
        raise ValueError(reason)
    return text(re.sub(r"\$(\d+)", lambda found: f":{parameters[int(found[1]) - 1]}", sql))


FINDS_SCHEMA = text("SELECT to_regclass('conversations') IS NOT NULL")
USAGE = _statement("usage", "from_s", "to_s", "uid")
SELECT_PROJECTS = _statement("select_projects", "ids")
INSERT_CONVERSATION = _statement(
    "insert_conversation", "id", "user_id", "title", "status", "project_ids", "agent_ids"
)
INSERT_SYSTEM_MESSAGE = _statement("insert_system_message", "id", "conversation_id", "content")
