INSERT INTO pending_provider_links
    (token, user_id, provider_type, provider_uid, provider_data, expires_at, ip_address, user_agent)
VALUES ($1, $2, $3, $4, $5::text::jsonb, now() + interval '15 minutes', $6, $7)
