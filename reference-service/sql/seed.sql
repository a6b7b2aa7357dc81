-- Seeds are written as upserts: a second run refreshes dates and adds nothing.

INSERT INTO users (uid, email, display_name, plan)
SELECT 'u-' || n, 'u-' || n || '@example.test', 'User ' || n, 'unlimited'
FROM generate_series(0, 199) n
UNION ALL
SELECT 'u-free', 'u-free@example.test', 'Free user', 'free'
UNION ALL
SELECT 'u-pro', 'u-pro@example.test', 'Pro user', 'pro'
ON CONFLICT (uid) DO UPDATE SET plan = excluded.plan;

INSERT INTO projects (id, repo_name, repo_path, branch_name, user_id, commit_id)
SELECT 'p-' || n, 'octo/project-' || n, NULL, 'main', 'u-' || (n - 1), md5('p-' || n)
FROM generate_series(1, 20) n
ON CONFLICT (id) DO NOTHING;

-- Twenty users with twenty conversations of ten messages: the aggregate has modest, real work.
INSERT INTO conversations (id, user_id, title, project_ids, agent_ids)
SELECT 'c-' || u || '-' || k, 'u-' || u, 'Conversation ' || k, ARRAY['p-1'],
       CASE WHEN k % 4 = 0 THEN ARRAY['a-1', 'a-2'] ELSE ARRAY['a-1'] END
FROM generate_series(0, 19) u, generate_series(1, 20) k
ON CONFLICT (id) DO NOTHING;

INSERT INTO messages (id, conversation_id, content, sender_id, type, created_at)
SELECT 'm-' || u || '-' || k || '-' || i, 'c-' || u || '-' || k, 'Message ' || i,
       CASE WHEN i % 2 = 1 THEN 'u-' || u END,
       CASE WHEN i % 2 = 1 THEN 'HUMAN' ELSE 'AI_GENERATED' END,
       now() - k * interval '1 day' - i * interval '1 minute'
FROM generate_series(0, 19) u, generate_series(1, 20) k, generate_series(1, 10) i
ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at;

-- One user at the free plan's limit, one a single message below the pro plan's.
INSERT INTO conversations (id, user_id, title, project_ids, agent_ids)
VALUES ('c-free', 'u-free', 'At the limit', ARRAY['p-1'], ARRAY['a-1']),
       ('c-pro', 'u-pro', 'Below the limit', ARRAY['p-1'], ARRAY['a-1'])
ON CONFLICT (id) DO NOTHING;

INSERT INTO messages (id, conversation_id, content, sender_id, type, created_at)
SELECT 'm-free-' || i, 'c-free', 'Message ' || i, 'u-free', 'HUMAN', now() - i * interval '1 hour'
FROM generate_series(1, 50) i
UNION ALL
SELECT 'm-pro-' || i, 'c-pro', 'Message ' || i, 'u-pro', 'HUMAN', now() - i * interval '1 hour'
FROM generate_series(1, 499) i
ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at;

-- Everyone signs in with Google and has linked GitHub, but for the free user, who has no GitHub.
INSERT INTO user_auth_providers (id, user_id, provider_type, provider_uid, provider_data, is_primary)
SELECT 'google-' || uid, uid, 'sso_google', 'google:' || email, jsonb_build_object('email', email), true
FROM users
WHERE uid LIKE 'u-%'
UNION ALL
SELECT 'github-' || uid, uid, 'firebase_github', 'github:' || uid, jsonb_build_object('username', uid), false
FROM users
WHERE uid LIKE 'u-%' AND uid <> 'u-free'
ON CONFLICT DO NOTHING;

-- Sixty nodes of code for each project: functions of six kinds on ten things.
INSERT INTO search_indices (project_id, node_id, name, file_path, content)
SELECT 'p-' || n, 'n-' || n || '-' || kind || '-' || thing, verb || '_' || noun, 'src/' || noun || '/' || verb || '.py',
       'def ' || verb || '_' || noun || '(context): return context.' || noun || 's.' || verb || '()'
FROM generate_series(1, 20) n,
     unnest(ARRAY['open', 'close', 'read', 'write', 'check', 'list']) WITH ORDINALITY verbs (verb, kind),
     unnest(ARRAY['file', 'session', 'user', 'stream', 'branch', 'project', 'message', 'token', 'cache', 'queue'])
         WITH ORDINALITY nouns (noun, thing)
ON CONFLICT (project_id, node_id) DO NOTHING;

-- The API key of u-<n> is sk- and <n> in 64 hexadecimal digits.
INSERT INTO user_preferences (user_id, preferences)
SELECT 'u-' || n,
       json_build_object('api_key_hash', encode(sha256(convert_to('sk-' || lpad(to_hex(n), 64, '0'), 'UTF8')), 'hex'))
FROM generate_series(0, 199) n
ON CONFLICT (user_id) DO NOTHING;

-- Fresh statistics, so that every run plans its queries alike.
ANALYZE users, projects, conversations, messages, user_auth_providers, search_indices, user_preferences;
