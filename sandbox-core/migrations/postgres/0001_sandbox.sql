-- Caches, workspaces, runtimes and prepared trees. A row whose state is its last one (deleted,
-- destroyed, adopted, terminated) is history, and no index for keys or lists has it.
--
-- Moments are microseconds since 1970, as in SQLite, so that both keep exactly what they are given.
-- They have no index: each use moves one, and without an index that is a write in place, while those
-- who look for what is idle come once in minutes and may read a whole table.

CREATE TABLE sandbox_repo_caches (
    id                 uuid PRIMARY KEY,
    -- host/owner/repo#scope
    key                text NOT NULL,
    repo_name          text NOT NULL,
    repo_url           text NOT NULL,
    provider           text NOT NULL,
    provider_host      text NOT NULL,
    local_path         text NOT NULL,
    auth_scope_hash    text NOT NULL,
    last_fetched_at_us bigint,
    last_used_at_us    bigint NOT NULL,
    size_bytes         bigint CHECK (size_bytes >= 0),
    state              text NOT NULL CHECK (state IN ('creating', 'ready', 'evicting', 'deleted')),
    version            bigint NOT NULL CHECK (version >= 1),
    token              bigint NOT NULL CHECK (token >= 0),
    created_at_us      bigint NOT NULL,
    updated_at_us      bigint NOT NULL
);

CREATE UNIQUE INDEX sandbox_repo_caches_key ON sandbox_repo_caches (key) WHERE state <> 'deleted';
CREATE INDEX sandbox_repo_caches_live ON sandbox_repo_caches (id) WHERE state <> 'deleted';

CREATE TABLE sandbox_workspaces (
    id              uuid PRIMARY KEY,
    repo_cache_id   uuid NOT NULL REFERENCES sandbox_repo_caches (id),
    project_id      text NOT NULL,
    user_id         text NOT NULL,
    mode            text NOT NULL CHECK (mode IN ('analysis', 'edit', 'task')),
    conversation_id text,
    task_id         text,
    base_ref        text NOT NULL,
    branch_name     text,
    local_path      text NOT NULL,
    state           text NOT NULL CHECK (
        state IN ('creating', 'ready', 'missing', 'evicting', 'eviction_blocked', 'deleted')
    ),
    dirty           boolean NOT NULL,
    pinned_until_us bigint,
    last_used_at_us bigint NOT NULL,
    size_bytes      bigint CHECK (size_bytes >= 0),
    version         bigint NOT NULL CHECK (version >= 1),
    token           bigint NOT NULL CHECK (token >= 0),
    -- Of the lock on its commands; the other one is of its own.
    commands_token  bigint NOT NULL CHECK (commands_token >= 0),
    created_at_us   bigint NOT NULL,
    updated_at_us   bigint NOT NULL,
    -- A key is never NULL: NULLs equal nothing, and a unique index would let any number of them in.
    CONSTRAINT edits_have_a_conversation_or_a_branch CHECK (
        mode <> 'edit' OR conversation_id IS NOT NULL OR branch_name IS NOT NULL
    ),
    CONSTRAINT tasks_have_a_task CHECK (mode <> 'task' OR task_id IS NOT NULL)
);

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
    id                 uuid PRIMARY KEY,
    workspace_id       uuid NOT NULL REFERENCES sandbox_workspaces (id),
    backend_kind       text NOT NULL,
    backend_runtime_id text,
    image              text NOT NULL,
    state              text NOT NULL CHECK (
        state IN ('creating', 'running', 'stopped', 'failed', 'destroying', 'destroyed')
    ),
    last_started_at_us bigint,
    last_used_at_us    bigint NOT NULL,
    expires_at_us      bigint,
    version            bigint NOT NULL CHECK (version >= 1),
    token              bigint NOT NULL CHECK (token >= 0),
    created_at_us      bigint NOT NULL,
    updated_at_us      bigint NOT NULL
);

CREATE UNIQUE INDEX sandbox_runtimes_workspace ON sandbox_runtimes (workspace_id)
    WHERE state <> 'destroyed';
CREATE INDEX sandbox_runtimes_live ON sandbox_runtimes (id) WHERE state <> 'destroyed';

CREATE TABLE sandbox_prepared_trees (
    id               uuid PRIMARY KEY,
    repo_cache_id    uuid NOT NULL REFERENCES sandbox_repo_caches (id),
    base_ref         text NOT NULL,
    commit_id        text,
    local_path       text NOT NULL,
    state            text NOT NULL CHECK (
        state IN ('warming', 'ready', 'claimed', 'adopted', 'draining', 'terminated')
    ),
    claimed_by       text,
    claimed_until_us bigint,
    claims           bigint NOT NULL CHECK (claims >= 0),
    version          bigint NOT NULL CHECK (version >= 1),
    created_at_us    bigint NOT NULL,
    updated_at_us    bigint NOT NULL,
    CONSTRAINT claims_have_a_holder_and_an_end CHECK (
        state <> 'claimed' OR (claimed_by IS NOT NULL AND claimed_until_us IS NOT NULL)
    )
);

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

-- What has a largest number. Whoever counts and then inserts holds the row meanwhile, so that of two
-- who come at once the second counts what the first has inserted.
CREATE TABLE sandbox_limits (
    counted text PRIMARY KEY
);

INSERT INTO sandbox_limits (counted) VALUES ('workspaces'), ('runtimes');
