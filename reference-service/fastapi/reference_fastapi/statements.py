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
        raise ValueError(f"{name}.sql has the placeholders {sorted(used)}, not {len(parameters)}")
    # In parentheses: a cast that follows (`$1::text`) would be taken for a part of the name.
    return text(re.sub(r"\$(\d+)", lambda found: f"(:{parameters[int(found[1]) - 1]})", sql))


FINDS_SCHEMA = text("SELECT to_regclass('conversations') IS NOT NULL")
USAGE = _statement("usage", "from_s", "to_s", "uid")
SELECT_PROJECTS = _statement("select_projects", "ids")
INSERT_CONVERSATION = _statement(
    "insert_conversation", "id", "user_id", "title", "status", "project_ids", "agent_ids"
)
INSERT_SYSTEM_MESSAGE = _statement("insert_system_message", "id", "conversation_id", "content")

SELECT_ACCESS = _statement("select_access", "uid", "id")
COUNT_MESSAGES = _statement("count_messages", "id")
INSERT_PARTIAL_MESSAGE = _statement(
    "insert_partial_message", "id", "content", "conversation_id", "user_id"
)

SELECT_SHARING = _statement("select_sharing", "id", "owner")
UPDATE_SHARING = _statement("update_sharing", "visibility", "emails", "id")

SELECT_USER_BY_UID = _statement("select_user_by_uid", "uid")
SELECT_USER_BY_EMAIL = _statement("select_user_by_email", "email")
SELECT_PROVIDERS = _statement("select_providers", "uid")
SELECT_PROVIDER = _statement("select_provider", "uid", "provider_type")
SELECT_PROVIDER_BY_UID = _statement("select_provider_by_uid", "provider_type", "provider_uid")
INSERT_USER = _statement("insert_user", "uid", "email", "display_name", "email_verified")
INSERT_PROVIDER = _statement(
    "insert_provider",
    "id",
    "user_id",
    "provider_type",
    "provider_uid",
    "provider_data",
    "is_primary",
    "ip",
    "user_agent",
)
INSERT_PENDING_LINK = _statement(
    "insert_pending_link",
    "token",
    "user_id",
    "provider_type",
    "provider_uid",
    "provider_data",
    "ip",
    "user_agent",
)
INSERT_AUDIT_EVENT = _statement(
    "insert_audit_event",
    "id",
    "user_id",
    "event_type",
    "provider_type",
    "status",
    "ip",
    "user_agent",
)
UPDATE_PROVIDER_USED = _statement("update_provider_used", "id")
UPDATE_LAST_LOGIN = _statement("update_last_login", "uid")
