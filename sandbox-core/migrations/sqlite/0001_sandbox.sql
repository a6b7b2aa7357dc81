-- Caches, workspaces, runtimes and prepared trees, as in PostgreSQL. A row whose state is its last one
-- (deleted, destroyed, adopted, terminated) is history, and no index for keys or lists has it.
--
-- Moments are microseconds since 1970, ids the 16 bytes of a UUID. The tables are strict, so that no
-- column holds a value of another type. Only one at a time writes here, so nothing is needed to count.

CREATE TABLE sandbox_repo_caches (
    id                 BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    -- host/owner/repo#scope
    key                TEXT NOT NULL,
    repo_name          TEXT NOT NULL,
    repo_url           TEXT NOT NULL,
    provider           TEXT NOT NULL,
    provider_host      TEXT NOT NULL,
    local_path         TEXT NOT NULL,
    auth_scope_hash    TEXT NOT NULL,
    last_fetched_at_us INTEGER,
    last_used_at_us    INTEGER NOT NULL,
    size_bytes         INTEGER CHECK (size_bytes >= 0),
    state              TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'evicting', 'deleted')),
    version            INTEGER NOT NULL CHECK (version >= 1),
    token              INTEGER NOT NULL CHECK (token >= 0),
    created_at_us      INTEGER NOT NULL,
    updated_at_us      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX sandbox_repo_caches_key ON sandbox_repo_caches (key) WHERE state <> 'deleted';
CREATE INDEX sandbox_repo_caches_live ON sandbox_repo_caches (id) WHERE state <> 'deleted';

CREATE TABLE sandbox_workspaces (
    id              BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    repo_cache_id   BLOB NOT NULL REFERENCES sandbox_repo_caches (id),
    project_id      TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    mode            TEXT NOT NULL CHECK (mode IN ('analysis', 'edit', 'task')),
    conversation_id TEXT,
    task_id         TEXT,
    base_ref        TEXT NOT NULL,
    branch_name     TEXT,
    local_path      TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (
        state IN ('creating', 'ready', 'missing', 'evicting', 'eviction_blocked', 'deleted')
    ),
    dirty           INTEGER NOT NULL CHECK (dirty IN (0, 1)),
    pinned_until_us INTEGER,
    last_used_at_us INTEGER NOT NULL,
    size_bytes      INTEGER CHECK (size_bytes >= 0),
    version         INTEGER NOT NULL CHECK (version >= 1),
    token           INTEGER NOT NULL CHECK (token >= 0),
    -- Of the lock on its commands; the other one is of its own.
    commands_token  INTEGER NOT NULL CHECK (commands_token >= 0),
    created_at_us   INTEGER NOT NULL,
    updated_at_us   INTEGER NOT NULL,
    -- A key is never NULL: NULLs equal nothing, and a unique index would let any number of them in.
    CONSTRAINT edits_have_a_conversation_or_a_branch CHECK (
        mode <> 'edit' OR conversation_id IS NOT NULL OR branch_name IS NOT NULL
    ),
    CONSTRAINT tasks_have_a_task CHECK (mode <> 'task' OR task_id IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX sandbox_workspaces_analysis ON sandbox_workspaces (user_id, project_id, base_ref)
    WHERE mode = 'analysis' AND state <> 'deleted';
CREATE UNIQUE INDEX sandbox_workspaces_conversation
    ON sandbox_workspaces (user_id, project_id, conversation_id)
    WHERE mode = 'edit' AND conversation_id IS NOT NULL AND state <> 'deleted';
CREATE UNIQUE INDEX sandbox_workspaces_branch ON sandbox_workspaces (user_id, project_id, branch_name)
    WHERE mode = 'edit' AND conversation_id IS NULL AND state <> 'deleted';
CREATE UNIQUE INDEX sandbox_workspaces_task ON sandbox_workspaces (user_id, project_id, task_id)
    WHERE mode = 'task' AND state <> 'deleted';
-- A user's workspaces, to find one by its key and to count them. A quota keeps them few.
CREATE INDEX sandbox_workspaces_user ON sandbox_workspaces (user_id, project_id)
    WHERE state <> 'deleted';
CREATE INDEX sandbox_workspaces_cache ON sandbox_workspaces (repo_cache_id, id)
    WHERE state <> 'deleted';
CREATE INDEX sandbox_workspaces_live ON sandbox_workspaces (id) WHERE state <> 'deleted';

CREATE TABLE sandbox_runtimes (
    id                 BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    workspace_id       BLOB NOT NULL REFERENCES sandbox_workspaces (id),
    backend_kind       TEXT NOT NULL,
    backend_runtime_id TEXT,
    image              TEXT NOT NULL,
    state              TEXT NOT NULL CHECK (
        state IN ('creating', 'running', 'stopped', 'failed', 'destroying', 'destroyed')
    ),
    last_started_at_us INTEGER,
    last_used_at_us    INTEGER NOT NULL,
    expires_at_us      INTEGER,
    version            INTEGER NOT NULL CHECK (version >= 1),
    token              INTEGER NOT NULL CHECK (token >= 0),
    created_at_us      INTEGER NOT NULL,
    updated_at_us      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX sandbox_runtimes_workspace ON sandbox_runtimes (workspace_id)
    WHERE state <> 'destroyed';
CREATE INDEX sandbox_runtimes_live ON sandbox_runtimes (id) WHERE state <> 'destroyed';

CREATE TABLE sandbox_prepared_trees (
    id               BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    repo_cache_id    BLOB NOT NULL REFERENCES sandbox_repo_caches (id),
    base_ref         TEXT NOT NULL,
    commit_id        TEXT,
    local_path       TEXT NOT NULL,
    state            TEXT NOT NULL CHECK (
        state IN ('warming', 'ready', 'claimed', 'adopted', 'draining', 'terminated')
    ),
    claimed_by       TEXT,
    claimed_until_us INTEGER,
    claims           INTEGER NOT NULL CHECK (claims >= 0),
    version          INTEGER NOT NULL CHECK (version >= 1),
    created_at_us    INTEGER NOT NULL,
    updated_at_us    INTEGER NOT NULL,
    CONSTRAINT claims_have_a_holder_and_an_end CHECK (
        state <> 'claimed' OR (claimed_by IS NOT NULL AND claimed_until_us IS NOT NULL)
    )
) STRICT;

-- In the order in which trees are claimed: the newest ready one, else the newest whose claim has ended.
CREATE INDEX sandbox_prepared_trees_ready
    ON sandbox_prepared_trees (repo_cache_id, base_ref, created_at_us, id)
    WHERE state = 'ready';
CREATE INDEX sandbox_prepared_trees_claimed
    ON sandbox_prepared_trees (repo_cache_id, base_ref, created_at_us, id)
    WHERE state = 'claimed';
CREATE INDEX sandbox_prepared_trees_unclaimed ON sandbox_prepared_trees (repo_cache_id, base_ref)
    WHERE state IN ('warming', 'ready');
CREATE INDEX sandbox_prepared_trees_cache ON sandbox_prepared_trees (repo_cache_id)
    WHERE state NOT IN ('adopted', 'terminated');
CREATE INDEX sandbox_prepared_trees_live ON sandbox_prepared_trees (id)
    WHERE state NOT IN ('adopted', 'terminated');
