-- What the routes of steps 2c and 2d need beyond the first tables.

ALTER TABLE users ADD COLUMN email_verified boolean NOT NULL DEFAULT false;

-- Ways to sign in to an account. Providers' access tokens aren't kept: nothing here would use them.
CREATE TABLE user_auth_providers (
    id                   text PRIMARY KEY,
    user_id              text NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
    provider_type        text NOT NULL,
    provider_uid         text NOT NULL,
    provider_data        jsonb,
    is_primary           boolean NOT NULL DEFAULT false,
    linked_at            timestamptz NOT NULL DEFAULT now(),
    last_used_at         timestamptz,
    linked_by_ip         text,
    linked_by_user_agent text,
    CONSTRAINT one_of_each_type UNIQUE (user_id, provider_type),
    CONSTRAINT one_account_each UNIQUE (provider_type, provider_uid)
);

-- Providers that wait for their user's consent.
CREATE TABLE pending_provider_links (
    token         text PRIMARY KEY,
    user_id       text NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
    provider_type text NOT NULL,
    provider_uid  text NOT NULL,
    provider_data jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    ip_address    text,
    user_agent    text
);

CREATE TABLE auth_audit_log (
    id            text PRIMARY KEY,
    user_id       text REFERENCES users (uid) ON DELETE SET NULL,
    event_type    text NOT NULL,
    provider_type text,
    status        text NOT NULL CHECK (status IN ('success', 'failure', 'pending')),
    ip_address    text,
    user_agent    text,
    created_at    timestamptz NOT NULL DEFAULT now()
);
