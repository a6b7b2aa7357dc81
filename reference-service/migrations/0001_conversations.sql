-- What the routes of steps 2a and 3 need. Later steps bring their own tables.

CREATE TABLE users (
    uid               text PRIMARY KEY,
    email             text NOT NULL UNIQUE,
    display_name      text,
    -- The reference service has no subscription service beside it, so the plan is kept here.
    plan              text NOT NULL DEFAULT 'free' CHECK (plan IN ('free', 'pro', 'unlimited')),
    provider_info     jsonb,
    provider_username text,
    created_at        timestamptz NOT NULL DEFAULT now(),
    last_login_at     timestamptz
);

CREATE TABLE projects (
    id          text PRIMARY KEY,
    repo_name   text NOT NULL,
    repo_path   text,
    branch_name text NOT NULL,
    user_id     text NOT NULL REFERENCES users (uid),
    commit_id   text,
    status      text NOT NULL DEFAULT 'ready'
);

CREATE TABLE conversations (
    id                 text PRIMARY KEY,
    user_id            text NOT NULL REFERENCES users (uid),
    title              text NOT NULL,
    status             text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived', 'deleted')),
    visibility         text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'public')),
    project_ids        text[] NOT NULL,
    agent_ids          text[] NOT NULL,
    shared_with_emails text[] NOT NULL DEFAULT '{}',
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX conversations_user_id ON conversations (user_id);

CREATE TABLE messages (
    id              text PRIMARY KEY,
    conversation_id text NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    content         text NOT NULL,
    sender_id       text,
    type            text NOT NULL CHECK (type IN ('HUMAN', 'AI_GENERATED', 'SYSTEM_GENERATED')),
    status          text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'ARCHIVED', 'DELETED')),
    citations       text,
    tool_calls      json,
    thinking        text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT only_people_have_a_sender CHECK ((type = 'HUMAN') = (sender_id IS NOT NULL))
);

CREATE INDEX messages_conversation_id ON messages (conversation_id);
