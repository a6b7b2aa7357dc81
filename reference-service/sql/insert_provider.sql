-- Inserts nothing when the user has one of that type, or another user has this one.
INSERT INTO user_auth_providers
    (id, user_id, provider_type, provider_uid, provider_data, is_primary, last_used_at, linked_by_ip, linked_by_user_agent)
VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, now(), $7, $8)
ON CONFLICT DO NOTHING
